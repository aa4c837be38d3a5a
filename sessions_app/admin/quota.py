from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import AccountQuota


@admin.register(AccountQuota)
class AccountQuotaAdmin(ReadOnlyAdmin):
    """What an account may have at most; empty: no limit. `./keepstate manage set_quota` sets it. Without a row: the defaults."""

    list_display = ("account", "sessions", "running_machines", "stored_bytes")
    list_select_related = ("account",)
    search_fields = ("account__name", "account__id")
    ordering = ("account",)
