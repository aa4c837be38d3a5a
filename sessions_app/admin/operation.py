from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label
from sessions_app.models import Operation
from sessions_app.services import by_operator, retry
from sessions_app.states import OPERATION_ACTIVE, OperationState, WaitsFor


def _cancel(operation: Operation, by: str) -> str:
    done = by_operator.cancel(operation, by)
    return "cancelled" if done.state not in OPERATION_ACTIVE else "asked to stop; what finishes first wins"


def _retry(operation: Operation, by: str) -> str:
    return f"asked for again as {by_operator.retry(operation, by).id}"


class WaitingFilter(admin.SimpleListFilter):
    """What has no host yet, by why; newest first, out of an index that holds nothing else."""

    title = "waits for"
    parameter_name = "waits_for"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("any", "a host, whyever"), *((reason.value, reason.value) for reason in WaitsFor)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Operation]) -> QuerySet[Operation]:
        wanted = self.value()
        if not wanted:
            return queryset
        waiting = queryset.filter(state=OperationState.QUEUED).exclude(waits_for="")
        return waiting if wanted == "any" else waiting.filter(waits_for=wanted)


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    """What is asked, who works on it, how it ended. A customer's commands and their output are not for operators to read."""

    list_display = (
        "id",
        "kind",
        "how",
        "session",
        "queue",
        "waits_for",
        "attempt",
        "lease_owner",
        "lease_expires_at",
        "accepted_at",
        "finished_at",
    )
    list_select_related = ("session",)
    list_filter = ("state", "kind", WaitingFilter)
    search_fields = ("id", "=idempotency_key", "session__id")
    search_help_text = "An operation's or session's id or how it begins; an idempotency key."
    ordering = ("-accepted_at", "-id")
    exclude = ("parameters", "response", "body_digest")
    acts = (
        Act("cancel", "Cancel", _cancel, lambda operation: operation.state in OPERATION_ACTIVE, grave=True),
        Act("retry", "Ask again", _retry, retry.offered),
    )

    how = state_label("state")
