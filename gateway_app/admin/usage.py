from django.contrib import admin

from gateway_app.models import UsageEntry
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(UsageEntry)
class UsageEntryAdmin(ReadOnlyAdmin):
    """The ledger of model calls, the newest line first. A figure that is not known is a dash."""

    list_display = (
        *("id", "session", "epoch", "served", "billed", "provider", "model", "input_tokens", "output_tokens", "microusd"),
        *("price_version", "recorded_at"),
    )
    list_select_related = ("session",)
    list_filter = ("served", "billed")
    search_fields = ("session__id", "account__id")
    search_help_text = "A session's or account's id or how it begins."
    ordering = ("-id",)
    raw_id_fields = ("call",)
