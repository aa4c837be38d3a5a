from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import ServiceRecord


@admin.register(ServiceRecord)
class ServiceRecordAdmin(ReadOnlyAdmin):
    """What the service and its operators did, newest first; it outlives what it tells of."""

    list_display = ("id", "recorded_at", "kind", "type", "account_id", "session_id", "actor")
    list_filter = ("kind",)
    search_fields = ("=account_id", "=session_id")
    search_help_text = "A whole account id or session id."
    ordering = ("-id",)
