import secrets

from django.db import models
from django.db.models.functions import Now


def new_receipt_id() -> str:
    return "er_" + secrets.token_hex(12)


class ErasureReceipt(models.Model):
    """What was erased of an account, kept after the account: values, no foreign keys. Unsigned while the erasure goes on.

    Of an account that was deleted as a whole: `deletion_id`, and in `erased` how many of what, by name.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_receipt_id, editable=False)
    account_id = models.CharField(max_length=40, db_index=True)
    object_count = models.PositiveBigIntegerField(null=True, blank=True)
    stored_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    checkpoint_count = models.PositiveBigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(db_default=Now(), editable=False)
    objects_gone_at = models.DateTimeField(null=True, blank=True)  # all but the key's: from here on the store may be empty of the account
    key_destroyed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    deletion_id = models.CharField(max_length=40, blank=True, db_index=True)
    erased = models.JSONField(null=True, blank=True)
    signature = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account_id"], name="one_erasure_at_a_time", condition=models.Q(finished_at__isnull=True))
        ]

    def __str__(self) -> str:
        return self.id
