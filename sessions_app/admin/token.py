from django.contrib import admin

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import ApiToken
from sessions_app.services import by_operator


def _revoke(token: ApiToken, by: str) -> str:
    by_operator.revoke(token, by)
    return "revoked; it opens nothing from now on."


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """The digest is never shown: the prefix is enough to recognise a token."""

    list_display = ("name", "prefix", "account", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("account",)
    search_fields = ("name", "prefix", "id", "account__name", "account__id")
    ordering = ("-created_at", "-id")
    exclude = ("digest",)
    acts = (Act("revoke", "Revoke", _revoke, lambda token: token.revoked_at is None, grave=True),)
