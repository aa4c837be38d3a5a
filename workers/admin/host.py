from django.contrib import admin
from django.http import HttpRequest

from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from workers.models import Host, HostPin


class HostPins(admin.TabularInline):  # type: ignore[type-arg]  # not subscriptable at run time
    model = HostPin
    fields = ("pin", "proved_at")
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Host | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Host | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Host | None = None) -> bool:
        return False


@admin.register(Host)
class HostAdmin(ReadOnlyAdmin):
    list_display = ("id", "heartbeat_at", "draining", "cpus", "memory", "registered_at")
    list_filter = ("draining",)
    search_fields = ("id",)
    ordering = ("id",)
    inlines = (HostPins,)

    @admin.display(description="memory", ordering="memory_bytes")
    def memory(self, host: Host) -> str:
        return mebibytes(host.memory_bytes)
