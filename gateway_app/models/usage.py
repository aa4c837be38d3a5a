from django.db import models
from django.db.models.functions import Now

from gateway_app.models.call import Call
from gateway_app.states import Served
from sessions_app.models import Account, Session


class UsageEntry(models.Model):
    """The ledger: one line for each request that a machine made, appended, never changed; at most one for a call that went upstream.

    Tokens and money of what was served from the record are what it would have cost: `billed` is false, and sums leave them out. Null is not
    known. Money in micro-dollars.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="usage_entries")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="usage_entries")
    epoch = models.PositiveIntegerField()
    call = models.ForeignKey(Call, on_delete=models.SET_NULL, null=True, related_name="usage_entries")  # null: it was erased
    served = models.CharField(max_length=12, choices=[(one.value, one.value) for one in Served])
    billed = models.BooleanField()
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=100, blank=True)
    key_id = models.CharField(max_length=40)
    input_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_read_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_write_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    microusd = models.BigIntegerField(null=True, blank=True)
    price_version = models.CharField(max_length=40, blank=True)
    recorded_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["call"], name="one_bill_per_call", condition=models.Q(served=Served.UPSTREAM)),
        ]
        indexes = [
            models.Index(fields=["session", "-id"], name="usage_of_session"),
            models.Index(fields=["account", "-recorded_at"], name="usage_of_account"),
        ]

    def __str__(self) -> str:
        return f"{self.served} {self.call_id}"
