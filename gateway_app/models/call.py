from django.db import models
from django.db.models.functions import Now

from gateway_app.ids import new_call_id
from gateway_app.states import Api, CallState, Provider, Section
from sessions_app.models import Account, Session


class Call(models.Model):
    """A model call that was let upstream: the row is committed before the provider hears of it, and its end before its caller does.

    `started` and `ended` are the session's call ticks (gateway_app.calls.window). Times are the database's. The data path writes this table
    by hand (gateway_app.proxy.rows), so what it fills stands there too.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_call_id, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="calls")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="calls")
    epoch = models.PositiveIntegerField()
    started = models.PositiveBigIntegerField()
    ended = models.PositiveBigIntegerField(null=True, blank=True)
    relay_id = models.CharField(max_length=64, blank=True)  # the relay's own name of it; empty where a program went past the relay

    provider = models.CharField(max_length=20, choices=[(one.value, one.value) for one in Provider])
    api = models.CharField(max_length=20, choices=[(one.value, one.value) for one in Api])
    path = models.CharField(max_length=500)
    model = models.CharField(max_length=100, blank=True)
    streamed = models.BooleanField(default=False)
    exact = models.CharField(max_length=64)
    canonical = models.CharField(max_length=64)
    loose = models.CharField(max_length=64)
    key_id = models.CharField(max_length=40)
    key_last4 = models.CharField(max_length=4)

    state = models.CharField(max_length=12, choices=[(one.value, one.value) for one in CallState], default=CallState.OPEN)
    pump = models.CharField(max_length=64, blank=True)  # the process that reads it, or has read it
    pump_seen_at = models.DateTimeField(null=True, blank=True)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    headers = models.JSONField(default=list)  # of the answer, as pairs
    request_bytes = models.PositiveBigIntegerField(default=0)
    response_bytes = models.PositiveBigIntegerField(default=0)

    input_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_read_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cache_write_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    steer_id = models.CharField(max_length=40, blank=True)
    body_sha256 = models.CharField(max_length=64)
    sent_sha256 = models.CharField(max_length=64)  # of what went upstream: another one only where the body was steered

    started_at = models.DateTimeField(db_default=Now(), editable=False)
    first_byte_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)  # a caller's connection took all of the answer; told a moment later

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "started"], name="call_tick"),
            models.UniqueConstraint(fields=["session", "relay_id"], name="call_of_relay", condition=~models.Q(relay_id="")),
        ]
        indexes = [
            models.Index(fields=["pump_seen_at"], name="call_open", condition=models.Q(state=CallState.OPEN)),
            models.Index(fields=["account", "-started_at"], name="call_of_account"),
            models.Index(fields=["session", "ended"], name="call_end"),  # what ended after a tick, or has not
            models.Index(fields=["-started_at", "-id"], name="call_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.id}"


class CallPiece(models.Model):
    """Bytes of a call as they went over the wire, sealed under the account's key. The pieces of a section, in order, are all of it."""

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="pieces")
    section = models.CharField(max_length=10, choices=[(one.value, one.value) for one in Section])
    number = models.PositiveIntegerField()
    start = models.PositiveBigIntegerField()  # of its first byte in the section
    sealed = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["call", "section", "number"], name="call_piece")]

    def __str__(self) -> str:
        return f"{self.call_id} {self.section} {self.number}"
