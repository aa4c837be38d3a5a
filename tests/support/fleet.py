"""A fleet of rows: an account with a token, an image, and one live host whose pin fits. No machine runs."""

from dataclasses import dataclass

from django.utils import timezone

from checkpoints_app.models import Checkpoint, Image, Pin
from checkpoints_app.services import pin as pins
from checkpoints_app.states import CheckpointState
from sessions_app.models import Account, ApiToken, Operation, Session
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import SessionState
from workers.models import Host, HostPin

HOST = "h-test"
IMAGE = "tiny"
GIB = 1 << 30


@dataclass(frozen=True)
class Tenant:
    account: Account
    token: ApiToken
    plain: str


def tenant(name: str = "first") -> Tenant:
    account = Account.objects.create(name=name)
    token, plain = tokens.issue(account, "test")
    return Tenant(account, token, plain)


def host_with_image() -> Pin:
    """Room for many small sessions of the image `tiny`."""
    pin = pins.record("x86_64", {"hypervisor": "test"})
    Image.objects.create(digest="a" * 64, name=IMAGE, architecture="x86_64", default_memory_bytes=256 << 20)
    host = Host.objects.create(id=HOST, memory_bytes=1024 * GIB, cpus=2, boot_id="boot")
    HostPin.objects.create(host=host, pin=pin)
    return pin


def boot_asked(account: Account, asked: Asked | None = None) -> Operation:
    return sessions.create(account, Wanted(image=IMAGE), asked or Asked())


def session_row(account: Account, state: SessionState = SessionState.RUNNING, *, saved: bool = False, **fields: object) -> Session:
    """A session in a state, as if it had come there; with `saved`, it has a valid checkpoint."""
    values: dict[str, object] = {
        "epoch": 1,
        "host_id": HOST,
        "image_name": IMAGE,
        "image_digest": "a" * 64,
        "architecture": "x86_64",
        "memory_bytes": 256 << 20,
        "budget_tokens": 1000,
    }
    session = Session.objects.create(account=account, runtime_state=state, **{**values, **fields})
    if saved:
        checkpoint_row(session)
    return session


def checkpoint_row(session: Session, state: CheckpointState = CheckpointState.PUBLISHED, **fields: object) -> Checkpoint:
    pin = pins.record("x86_64", {"hypervisor": "test"})
    values: dict[str, object] = {"source_epoch": session.epoch, "event_watermark": session.event_count}
    values |= {"operation_id": "op_made", "lease_token": 1, "published_at": timezone.now() if state == CheckpointState.PUBLISHED else None}
    row = Checkpoint.objects.create(
        account_id=session.account_id, session=session, state=state, pin=pin, image_digest=session.image_digest, **{**values, **fields}
    )
    if state == CheckpointState.PUBLISHED:
        Session.objects.filter(id=session.id).update(head_checkpoint_id=row.id, head_checkpoint_at=row.created_at, pin_digest=pin.digest)
        session.refresh_from_db()
    return row
