from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin, ReadOnlyInline, mebibytes
from sessions_app.admin.shown import labelled
from workers.host import drain, liveness
from workers.models import Host, HostPin


def _drain(host: Host, by: str) -> str:
    drain.drain(host, by)
    return "draining: it takes no new work; its machines run on."


def _take_work(host: Host, by: str) -> str:
    drain.take_work(host, by)
    return "it takes work again."


class HostPins(ReadOnlyInline):
    model = HostPin
    fields = ("pin", "proved_at")


@admin.register(Host)
class HostAdmin(ReadOnlyAdmin):
    list_display = ("id", "state", "heartbeat_at", "cpus", "memory", "network", "registered_at")
    list_filter = ("draining", "network")
    search_fields = ("id",)
    ordering = ("id",)
    inlines = (HostPins,)
    acts = (
        Act("drain", "Drain", _drain, lambda host: not host.draining, grave=True),
        Act("take-work", "Take work again", _take_work, lambda host: host.draining),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        hosts: QuerySet[Host] = super().get_queryset(request)
        return hosts.annotate(fresh=liveness.fresh())

    @labelled
    @admin.display(description="state")
    def state(self, host: Host) -> str:
        fresh: bool = host.fresh  # type: ignore[attr-defined]  # by the annotation: by the database's clock, as placement judges
        return "silent" if not fresh else "draining" if host.draining else "alive"

    @admin.display(description="memory")
    def memory(self, host: Host) -> str:
        return mebibytes(host.memory_bytes)
