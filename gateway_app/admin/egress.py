from django.contrib import admin

from gateway_app.models import EgressSum
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(EgressSum)
class EgressSumAdmin(ReadOnlyAdmin):
    """How much sessions' machines have connected to beside their providers. Where to is their owners' to read."""

    list_display = ("session", "connections", "refusals", "sent_bytes", "received_bytes")
    list_select_related = ("session",)
    search_fields = ("session__id",)
    search_help_text = "A session's id or how it begins."
    ordering = ("-received_bytes", "session_id")
