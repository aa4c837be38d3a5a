"""Rows of the gateway as the data path leaves them, without a data path."""

from typing import Any

from django.db import transaction

from gateway_app.models import Call, CallPiece, ProviderKey, SessionBudget, UsageEntry
from gateway_app.services import provider_key
from gateway_app.states import CallState, Section, Served
from sessions_app.models import Account, Session
from sessions_app.services import steps

SECRET = "sk-planted-secret-of-a-test-0042"


def key_of(account: Account, provider: str = "anthropic", alias: str = "") -> ProviderKey:
    with transaction.atomic():
        return provider_key.create(account, provider=provider, secret=SECRET, alias=alias, actor="test")


def call_row(session: Session, started: int, ended: int | None = None, *, epoch: int = 1, **fields: Any) -> Call:
    """Complete if it has ended, else open."""
    values: dict[str, Any] = {"state": CallState.OPEN if ended is None else CallState.COMPLETE, "provider": "anthropic", "api": "anthropic"}
    values |= {"path": "/v1/messages", "model": "fake-model", "key_id": "vlt_1", "key_last4": "0042", "exact": f"{started}"}
    values |= {"canonical": f"{started}", "loose": f"{started}", "body_sha256": "0" * 64, "sent_sha256": "0" * 64}
    call = Call.objects.create(account=session.account, session=session, epoch=epoch, started=started, ended=ended, **{**values, **fields})
    sealed = steps.seal.call(session.account_id, b"words of the customer")
    CallPiece.objects.create(call=call, section=Section.RESPONSE, number=0, start=0, sealed=sealed)
    return call


def billed(call: Call, *, tokens: int | None = 10, microusd: int | None = 30, served: Served = Served.UPSTREAM) -> UsageEntry:
    """A line of the ledger; half of the tokens went in, half came out."""
    half = None if tokens is None else tokens // 2
    return UsageEntry.objects.create(
        account=call.account, session=call.session, epoch=call.epoch, call=call, served=served, billed=served == Served.UPSTREAM,
        provider=call.provider, model=call.model, key_id=call.key_id, input_tokens=half, output_tokens=half, microusd=microusd,
    )  # fmt: skip


def spent(session: Session, **sums: int) -> None:
    SessionBudget.objects.update_or_create(session=session, defaults={"billed_calls": 1, **sums})
