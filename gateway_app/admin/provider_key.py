from django.contrib import admin

from gateway_app.models import ProviderKey
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(ProviderKey)
class ProviderKeyAdmin(ReadOnlyAdmin):
    """Accounts' keys of model providers. The secrets are sealed and never shown."""

    list_display = ("id", "account", "provider", "alias", "last4", "enabled", "revision", "created_at", "updated_at")
    list_select_related = ("account",)
    list_filter = ("provider", "enabled")
    search_fields = ("id", "account__name", "account__id")
    ordering = ("-created_at", "-id")
    exclude = ("secret",)
