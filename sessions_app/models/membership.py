from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_membership_id
from sessions_app.models.account import Account
from sessions_app.roles import Role


class Membership(models.Model):
    """A user's role in an account: it cuts what the user's tokens may do there, at each request anew."""

    id = models.CharField(primary_key=True, max_length=40, default=new_membership_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=[(role.value, role.value) for role in Role])
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "user"], name="one_membership_per_user")]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.account_id}"
