from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label
from sessions_app.models import AccountDeletion


@admin.register(AccountDeletion)
class AccountDeletionAdmin(ReadOnlyAdmin):
    """Deletions of accounts: how far each is, and what hindered its last turn."""

    list_display = ("id", "account_id", "how", "due_at", "started_at", "ended_at", "trouble")
    list_filter = ("state",)
    search_fields = ("id", "account_id")
    search_help_text = "A deletion's or account's id or how it begins."
    ordering = ("-created_at", "-id")
    exclude = ("secret_digest",)
    how = state_label("state")
