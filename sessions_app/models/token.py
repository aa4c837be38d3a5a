from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_token_id
from sessions_app.models.account import Account
from sessions_app.roles import Scope, cut, in_order


class ApiToken(models.Model):
    """A bearer token of an account. Only its digest is kept; the prefix is what a person may be shown.

    A token of a user does what its scopes and the user's role in the account both allow; one of no user (made by a command) has its scopes
    alone. It goes with its user: it must never be left as one of no user.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_token_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens", null=True, blank=True)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def role(self) -> str | None:
        """The user's role in the account, as the lookup of the token found it (services/token.py); a row read otherwise has none."""
        found: str | None = getattr(self, "member_role", None)
        return found

    @property
    def effective_scopes(self) -> list[Scope]:
        return in_order(self.scopes) if self.user_id is None else cut(self.scopes, self.role)
