from django.contrib import admin

from gateway_app.models import AccountBudget, SessionBudget
from sessions_app.admin.readonly import ReadOnlyAdmin

_SPENT = ("spent_tokens", "spent_microusd", "billed_calls", "unknown_calls", "unpriced_calls")


@admin.register(SessionBudget)
class SessionBudgetAdmin(ReadOnlyAdmin):
    """What sessions have spent on model calls, and their limits in money; the one in tokens is the session's own."""

    list_display = ("session", "microusd", *_SPENT, "replayed_calls", "replayed_tokens", "warned_at", "exhausted_at")
    list_select_related = ("session",)
    search_fields = ("session__id",)
    search_help_text = "A session's id or how it begins."
    ordering = ("session_id",)


@admin.register(AccountBudget)
class AccountBudgetAdmin(ReadOnlyAdmin):
    """What accounts have spent on model calls, deleted sessions included, and their limits; empty: none."""

    list_display = ("account", "tokens", "microusd", *_SPENT, "revision")
    list_select_related = ("account",)
    search_fields = ("account__name", "account__id")
    ordering = ("account_id",)
