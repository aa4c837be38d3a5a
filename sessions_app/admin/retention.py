from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import RetentionPolicy


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(ReadOnlyAdmin):
    """What owners let expire. An operator holds a checkpoint, at its page, to keep it out of every policy."""

    list_display = (
        *("id", "account", "session", "active", "enabled"),
        *("keep_last", "keep_hourly", "keep_daily", "keep_weekly", "keep_named", "changed_at"),
    )
    list_select_related = ("account", "session")
    list_filter = ("active", "enabled")
    search_fields = ("account__name", "account__id", "session__id")
    ordering = ("account", "id")
