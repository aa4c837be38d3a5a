from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin, ReadOnlyInline
from sessions_app.drawing import units
from sessions_app.models import Account, AccountUsage


class UsageInline(ReadOnlyInline):
    model = AccountUsage
    fields = ("awake_ms", "estimated_ms", "stored_bytes", "measured_at")


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    list_display = ("name", "id", "stored", "awake", "closing_at", "created_at")
    list_select_related = ("usage",)
    search_fields = ("name", "id")
    ordering = ("name",)
    inlines = (UsageInline,)

    @admin.display(description="stored")
    def stored(self, account: Account) -> str:
        usage = _usage(account)
        return units.known(usage.stored_bytes if usage else 0, units.size)

    @admin.display(description="machines awake")
    def awake(self, account: Account) -> str:
        usage = _usage(account)
        return units.seconds(usage.awake_ms / 1000) if usage else "never"


def _usage(account: Account) -> AccountUsage | None:
    """An account that never used anything has no such row."""
    return getattr(account, "usage", None)
