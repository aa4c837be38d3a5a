from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label
from sessions_app.models import DeviceGrant


@admin.register(DeviceGrant)
class DeviceGrantAdmin(ReadOnlyAdmin):
    """Sign-ins that terminals have begun. Their codes are not shown, and not kept."""

    list_display = ("id", "how", "client", "address", "user", "account", "created_at", "expires_at", "decided_at")
    list_select_related = ("user", "account")
    list_filter = ("state",)
    search_fields = ("=address", "user__username", "account__name")
    search_help_text = "A whole address; a user's or an account's name or how it begins."
    ordering = ("-id",)
    exclude = ("device_digest", "user_digest")
    how = state_label("state")
