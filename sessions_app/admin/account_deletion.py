from django.contrib import admin

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label
from sessions_app.models import AccountDeletion
from sessions_app.services import by_operator
from sessions_app.states import DeletionState


def _keep(deletion: AccountDeletion, by: str) -> str:
    by_operator.keep_account(deletion, by)
    return "cancelled; the account goes on."


@admin.register(AccountDeletion)
class AccountDeletionAdmin(ReadOnlyAdmin):
    """How each account's deletion stands, and what keeps it. It is planned and scheduled by the account's owner."""

    list_display = ("id", "account_id", "how", "trouble", "actor", "created_at", "due_at", "started_at", "ended_at")
    list_filter = ("state",)
    search_fields = ("id", "account_id")
    search_help_text = "A deletion's or account's id or how it begins."
    ordering = ("-created_at", "-id")
    exclude = ("secret_digest",)
    acts = (Act("keep", "Cancel the deletion", _keep, lambda deletion: deletion.state == DeletionState.SCHEDULED),)
    how = state_label("state")
