"""Filters of the list of hosts. Hosts are few: their labels may be read for the choices."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from workers.host.state import HostState
from workers.models import Host

#: Choices of one filter.
MOST = 50


class StateFilter(admin.SimpleListFilter):
    """By the state that the list is annotated with. Retired hosts are shown where they are asked for."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.value) for state in HostState]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(state=self.value()) if self.value() else queryset.filter(retired_at=None)


class LabelFilter(admin.SimpleListFilter):
    title = "label"
    parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        known = {f"{name}={value}" for labels in Host.objects.values_list("labels", flat=True)[:1000] for name, value in labels.items()}
        return [(one, one) for one in sorted(known)[:MOST]]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        name, _, value = (self.value() or "").partition("=")
        return queryset.filter(labels__contains={name: value}) if name else queryset
