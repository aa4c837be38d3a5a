from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import Membership


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    """Who belongs to an account. Its owners decide that, through the API."""

    list_display = ("id", "user", "account", "role", "created_at")
    list_select_related = ("user", "account")
    list_filter = ("role",)
    search_fields = ("user__username", "account__name", "account__id", "=id")
    search_help_text = "A user's or an account's name or how it begins."
    ordering = ("account", "id")
