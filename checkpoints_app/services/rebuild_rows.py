"""Rows that only say what a manifest's facts say: accounts, sessions, pins and checkpoints, made where they are missing."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Now
from django.utils.dateparse import parse_datetime

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import pin
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import Manifest as StoredManifest
from sessions_app.models import Account, Session
from sessions_app.services import event, reconcile
from sessions_app.services.bounds import DEFAULT_BUDGET_TOKENS
from sessions_app.states import SessionState

SOURCE = "rebuild_index"
PARK_REASON = "rebuilt"


def account(account_id: str) -> None:
    """Its name is not in the store: it is called by its id."""
    Account.objects.get_or_create(id=account_id, defaults={"name": account_id})


def checkpoint(account_id: str, stored: StoredManifest) -> Checkpoint | None:
    """A published row of that manifest, with its session and pin. None if the facts do not say whose it is, or say what cannot be."""
    facts = stored.facts
    try:
        with transaction.atomic():
            session = _session(account_id, facts)
            return _row(account_id, session, stored)
    except (KeyError, TypeError, ValueError):
        return None


def _session(account_id: str, facts: Mapping[str, Any]) -> Session:
    machine = facts["machine"]
    defaults = {
        "account_id": account_id,
        "runtime_state": SessionState.PARKED,
        "park_reason": PARK_REASON,
        "image_name": facts.get("image_name") or facts["image"][:12],
        "image_digest": facts["image"],
        "architecture": machine["architecture"],
        "memory_bytes": machine["memory_bytes"],
        "cpus": machine["cpus"],
        "budget_tokens": DEFAULT_BUDGET_TOKENS,
        "epoch": facts["epoch"],
        "pin_digest": facts["pin"],
    }
    session, made = Session.objects.get_or_create(id=facts["session"], defaults=defaults)
    if session.account_id != account_id:
        raise ValueError("the session is another account's")
    if made:
        event.append(session.id, "session.rebuilt", {}, source=SOURCE)
    elif session.park_reason == PARK_REASON:
        Session.objects.filter(id=session.id, epoch__lt=facts["epoch"]).update(epoch=facts["epoch"])
    return session


def _row(account_id: str, session: Session, stored: StoredManifest) -> Checkpoint:
    facts, images = stored.facts, stored.images
    taken_at = _moment(facts.get("taken_at"))
    row = Checkpoint.objects.create(
        id=facts["checkpoint"],
        account_id=account_id,
        session=session,
        state=CheckpointState.PUBLISHED,
        operation_id="",
        lease_token=0,
        pin=pin.record(facts["machine"]["architecture"], facts["pin_facts"]),
        image_digest=facts["image"],
        source_epoch=facts["epoch"],
        reason=facts.get("reason") or "",
        boundary=facts.get("boundary") or "live",
        event_watermark=facts["watermarks"]["events"],
        watermarks={name: number for name, number in facts["watermarks"].items() if name != "events"},
        manifest_id=stored.manifest_id,
        content_digest=stored.digest,
        memory_root=images["memory"].root,
        disk_root=images["disk"].root if "disk" in images else "",
        logical_bytes=stored.logical_bytes,
    )
    Checkpoint.objects.filter(id=row.id).update(created_at=taken_at or Now(), published_at=taken_at or Now())
    row.refresh_from_db()
    return row


def _moment(text: object) -> datetime | None:
    return parse_datetime(text) if isinstance(text, str) else None


def restore_lines(account_id: str, stored: Iterable[StoredManifest]) -> None:
    """Checkpoints get their parents, as far as these are there; sessions that were made here, or lost their head, the newest one."""
    rows = Checkpoint.objects.filter(account_id=account_id)
    for one in stored:
        parent = rows.filter(id=str(one.facts.get("parent"))).first()
        if parent is not None:
            rows.filter(id=str(one.facts.get("checkpoint")), parent__isnull=True).update(parent=parent)
    for session in Session.objects.filter(park_reason=PARK_REASON, account_id=account_id):
        # whoever rebuilds has lost the history and knows it: what the checkpoints say that there was is told as lost
        reach = rows.filter(session=session).aggregate(watermark=Max("event_watermark"))["watermark"]
        with transaction.atomic():
            reconcile.fill(session.id, event_watermark=reach or 0, source_epoch=0, source=SOURCE)
    for session in Session.objects.filter(Q(park_reason=PARK_REASON) | Q(head_checkpoint_id=""), account_id=account_id):
        newest = rows.filter(session=session, state=CheckpointState.PUBLISHED).order_by("-created_at", "-id").first()
        if newest is not None:
            Session.objects.filter(id=session.id).update(head_checkpoint_id=newest.id, head_checkpoint_at=newest.published_at)
