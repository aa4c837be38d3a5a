from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import ApiToken
from sessions_app.services import token as tokens


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """The digest is never shown: the prefix is enough to recognise a token."""

    list_display = ("name", "prefix", "account", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("account",)
    list_filter = ("revoked_at", "expires_at")
    search_fields = ("name", "prefix", "=id", "account__name")
    ordering = ("-created_at", "-id")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens")
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiToken]) -> None:
        for token in chosen:
            tokens.revoke(token)
        self.message_user(request, f"{len(chosen)} revoked: they open nothing from now on.")
