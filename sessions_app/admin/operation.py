from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import Operation


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    """What is asked, who works on it, how it ended. A customer's commands and their output are not for operators to read."""

    list_display = ("id", "kind", "state", "session", "queue", "attempt", "lease_owner", "lease_expires_at", "accepted_at", "finished_at")
    list_select_related = ("session",)
    list_filter = ("state", "kind", "http_status")
    search_fields = ("=id", "=idempotency_key", "session__id__startswith", "=queue", "=lease_owner")
    ordering = ("-accepted_at", "-id")
    exclude = ("parameters", "response", "body_digest")
