from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin, ReadOnlyInline, mebibytes
from sessions_app.admin.shown import labelled
from workers.admin import host_page
from workers.admin.host_filters import LabelFilter, StateFilter
from workers.host import drain, enrol
from workers.host.state import HEARD, HostState, with_state
from workers.models import Host, HostPin


def _drain(host: Host, by: str) -> str:
    drain.drain(host, by)
    return "draining: it takes no new work; its machines run on."


def _move(host: Host, by: str) -> str:
    drain.drain(host, by, move=True)
    return "it takes no new work, and its machines are moved to other hosts, a few at a time."


def _take_work(host: Host, by: str) -> str:
    drain.take_work(host, by)
    return "it takes work again."


def _retire(host: Host, by: str) -> str:
    enrol.retire(host, by)
    return "retired: its workers end. What was saved there lies in the store, and is untouched."


def _stays(host: Any) -> bool:
    return host.retired_at is None


class HostPins(ReadOnlyInline):
    model = HostPin
    fields = ("pin", "proved_at")


@admin.register(Host)
class HostAdmin(ReadOnlyAdmin):
    list_display = ("id", "state", "heartbeat_at", "observed_at", "words", "cpus", "memory", "network", "registered_at")
    list_filter = (StateFilter, LabelFilter, "network")
    search_fields = ("id",)
    ordering = ("id",)
    inlines = (HostPins,)
    acts = (
        Act("drain", "Drain", _drain, lambda host: _stays(host) and not host.draining, grave=True),
        Act("move", "Drain and move", _move, lambda host: _stays(host) and not host.moving, grave=True),
        Act("take-work", "Take work again", _take_work, lambda host: _stays(host) and host.draining),
        Act("retire", "Retire", _retire, lambda host: host.state not in HEARD and _stays(host), grave=True),
    )
    change_form_outer_before_template = "admin/session_page.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        hosts: QuerySet[Host] = with_state(super().get_queryset(request))
        return hosts

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None) -> Any:
        host = self.get_object(request, unquote(object_id)) if object_id else None
        parts = host_page.of(host) if host is not None and self.has_view_permission(request) else []
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), "parts": parts})

    @labelled
    @admin.display(description="state")
    def state(self, host: Any) -> str:
        return HostState(host.state).value

    @admin.display(description="labels")
    def words(self, host: Host) -> str:
        return ", ".join(f"{name}={value}" for name, value in sorted(host.labels.items())) or "–"

    @admin.display(description="memory")
    def memory(self, host: Host) -> str:
        return mebibytes(host.memory_bytes)
