"""Pages to look at rows that belong to services: the admin shows them and changes nothing behind a service's back."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    show_full_result_count = False  # counting a large table for every page costs more than it tells
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def mebibytes(size: int | None) -> str:
    """A size in bytes for a reader; a figure that is not known is a dash."""
    return "–" if size is None else f"{size / (1 << 20):.1f} MiB"
