from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_deletion_id
from sessions_app.states import DELETION_ACTIVE, DeletionState


class AccountDeletion(models.Model):
    """An account's deletion, kept beyond it: the account by its id's value, figures, and no content.

    `journal`: by step, how many of what it has erased so far. Whoever has the secret, of which only the digest is kept, may read how it
    stands, and the receipt once it is done.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_deletion_id, editable=False)
    account_id = models.CharField(max_length=40, db_index=True)
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in DeletionState], default=DeletionState.SCHEDULED)
    secret_digest = models.CharField(max_length=64, editable=False)
    actor = models.CharField(max_length=100)
    journal = models.JSONField(default=dict)
    trouble = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account_id"], name="one_deletion_of_account", condition=models.Q(state__in=sorted(DELETION_ACTIVE))
            )
        ]
        indexes = [models.Index(fields=["due_at"], name="deletion_due", condition=models.Q(state__in=sorted(DELETION_ACTIVE)))]

    def __str__(self) -> str:
        return f"{self.id} of {self.account_id}"
