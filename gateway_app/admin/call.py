from django.contrib import admin

from gateway_app.models import Call
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    """Model calls, the newest first: metadata. What was asked and answered is the owner's, sealed, and shown to nobody."""

    list_display = (
        *("id", "session", "epoch", "provider", "model", "how", "http_status", "input_tokens", "output_tokens", "key_last4"),
        *("started_at", "ended_at"),
    )
    list_select_related = ("session",)
    list_filter = ("provider", "state")
    search_fields = ("id", "session__id", "account__id")
    search_help_text = "A call's, session's or account's id or how it begins."
    ordering = ("-started_at", "-id")
    exclude = ("headers", "path", "exact", "canonical", "loose")
    how = state_label("state")
