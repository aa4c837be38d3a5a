from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_workspace_id
from sessions_app.models.account import Account


class Workspace(models.Model):
    """An archive that a session is to begin with: checked, written anew as a tar of ours, and kept sealed until it is unpacked.

    `session_id` is empty until one session takes it, which happens once. The row and its parts go when they were unpacked, with their
    session, with their account, or when they expire.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_workspace_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="workspaces")
    session_id = models.CharField(max_length=32, blank=True)
    sha256 = models.CharField(max_length=64)  # of what was sent
    size = models.PositiveBigIntegerField()  # of what was sent
    files = models.PositiveIntegerField()
    content_bytes = models.PositiveBigIntegerField()
    stored_sha256 = models.CharField(max_length=64)  # of all parts, opened and joined
    stored_bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["expires_at"], name="workspace_expiry"),
            models.Index(fields=["session_id"], name="workspace_of_session", condition=~models.Q(session_id="")),
        ]

    def __str__(self) -> str:
        return self.id


class WorkspacePart(models.Model):
    """Up to 1 MiB of a workspace's packed tar, sealed under the account's key."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    sealed = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "number"], name="workspace_part_number")]

    def __str__(self) -> str:
        return f"{self.workspace_id} {self.number}"
