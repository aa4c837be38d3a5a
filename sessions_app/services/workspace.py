"""Archives that sessions begin with: taken in, kept sealed for a day, given to one session, and gone once they are unpacked.

What was sent is read once, refused for anything but plain files and directories (`sessions_app/archive`), and written anew: nothing of its
headers, and none of its bytes but files' content, ever reaches a machine.
"""

import hashlib
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO, Self

from django.db.models import Exists, OuterRef, Sum
from django.db.models.functions import Now

from sessions_app.archive.canonical import READERS, Counted, canonical
from sessions_app.errors import Conflict, IntegrityFailed, Invalid, NotFound, NotJson, TooLarge
from sessions_app.models import Account, Session, Workspace, WorkspacePart
from sessions_app.services import bounds, steps
from sessions_app.states import SessionState

LIFE = timedelta(hours=24)
PART_BYTES = bounds.MIB
_BATCH = 50
_ANOTHER = "Upload the archive again: POST /api/v2/workspaces."


@dataclass
class Received:
    """What arrived; `packed`, a file without a name, holds the tar of ours, gzipped. To be closed."""

    sha256: str
    size: int
    counted: Counted
    packed: BinaryIO

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.packed.close()


def require_type(media_type: str) -> str:
    """The type without its parameters. Raises NotJson for one that is no archive."""
    found = media_type.partition(";")[0].strip().lower()
    if found not in READERS:
        raise NotJson(
            f"A workspace is one of: {', '.join(sorted(READERS))}. Nothing was kept.", next_action="Send it with its Content-Type."
        )
    return found


def spool(chunks: Iterable[bytes], into: BinaryIO, sha256: str | None) -> tuple[str, int]:
    """Write what arrives to the file, and go back to its beginning: (SHA-256, how many bytes).

    Raises TooLarge, Invalid for no bytes, Conflict (ks_digest_mismatch) where `sha256` announced others.
    """
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        size += len(chunk)
        if size > bounds.WORKSPACE_BYTES:
            raise TooLarge(f"An archive has at most {bounds.WORKSPACE_BYTES} bytes. Nothing was kept.")
        digest.update(chunk)
        into.write(chunk)
    if not size:
        raise Invalid("The archive has no bytes. Nothing was kept.")
    if sha256 is not None and digest.hexdigest() != sha256:
        raise Conflict(
            "The bytes that arrived do not have the SHA-256 that was announced. Nothing was kept.",
            code="ks_digest_mismatch",
            next_action="Send them again.",
            facts={"sha256_received": digest.hexdigest(), "bytes_received": size},
        )
    into.seek(0)
    return digest.hexdigest(), size


def pack(sent: BinaryIO, media_type: str, sha256: str, size: int) -> Received:
    """The archive as a tar of ours. Takes as long as its files are many and large. Raises ArchiveRefused, ArchiveTooLarge."""
    counted, squeeze = Counted(), zlib.compressobj(1, wbits=31)
    packed = tempfile.TemporaryFile()  # noqa: SIM115  its name is gone at once; it lives as long as what is returned
    received = Received(sha256, size, counted, packed)
    try:
        for piece in canonical(sent, media_type, int(time.time()), counted):
            packed.write(squeeze.compress(piece))
        packed.write(squeeze.flush())
        packed.seek(0)
    except BaseException:
        packed.close()
        raise
    return received


def keep(account: Account, received: Received) -> Workspace:
    """Prerequisite: inside a transaction. Raises Conflict (ks_quota_exceeded) when too many wait for a session already."""
    found = Workspace.objects.create(
        account=account, sha256=received.sha256, size=received.size, files=received.counted.files,
        content_bytes=received.counted.content_bytes, stored_bytes=0, expires_at=Now() + LIFE,
    )  # fmt: skip
    digest, stored = hashlib.sha256(), 0
    for number, part in enumerate(iter(lambda: received.packed.read(PART_BYTES), b"")):
        WorkspacePart.objects.create(workspace=found, number=number, sealed=steps.seal.call(account.id, part))
        digest.update(part)
        stored += len(part)
    Workspace.objects.filter(id=found.id).update(stored_bytes=stored, stored_sha256=digest.hexdigest())
    _require_room(account)
    found.refresh_from_db()
    return found


def _require_room(account: Account) -> None:
    """With those of this transaction. The account's row orders uploads that end at the same time."""
    Account.objects.select_for_update(no_key=True).get(id=account.id)
    held = Workspace.objects.filter(account=account).exclude(session_id="", expires_at__lt=Now())
    count, stored = held.count(), held.aggregate(all=Sum("stored_bytes"))["all"] or 0
    if count > bounds.WORKSPACES_WAITING or stored > bounds.WORKSPACES_WAITING_BYTES:
        raise Conflict(
            f"At most {bounds.WORKSPACES_WAITING} archives of an account, and {bounds.WORKSPACES_WAITING_BYTES} bytes of them, wait to be "
            "unpacked. Nothing was kept.",
            next_action="Start sessions with those that wait, drop some, or delete sessions that wait for their machine.",
            code="ks_quota_exceeded",
        )


def waiting(account: Account) -> list[Workspace]:
    """Those that no session has taken, the newest first; `keep` bounds how many there are."""
    return list(Workspace.objects.filter(account=account, session_id="", expires_at__gt=Now()).order_by("-created_at"))


def drop(account: Account, workspace_id: str) -> None:
    """Raises NotFound for what is not there, or was given to a session."""
    if not Workspace.objects.filter(account=account, id=workspace_id[:40], session_id="").delete()[0]:
        raise NotFound("There is no such workspace that waits for a session. Nothing was deleted.")


def give(workspace_id: str, session: Session) -> None:
    """Let the session begin with it. Prerequisite: in the transaction that makes the session.

    Raises NotFound, or Conflict: another session has it (ks_workspace_used), ks_workspace_expired.
    """
    found = Workspace.objects.filter(account_id=session.account_id, id=workspace_id[:40]).first()
    if found is None:
        raise NotFound("There is no such workspace, or it has been used or has expired. No session was started.", next_action=_ANOTHER)
    live = Workspace.objects.filter(id=found.id, expires_at__gt=Now())
    if live.filter(session_id="").update(session_id=session.id, expires_at=Now() + LIFE):
        return
    if not live.exists():
        raise Conflict("This workspace has expired. No session was started.", code="ks_workspace_expired", next_action=_ANOTHER)
    raise _used(found)


def _used(found: Workspace) -> Conflict:
    return Conflict(
        "Another session has begun with this workspace. No session was started.",
        code="ks_workspace_used",
        next_action=_ANOTHER,
        facts={"workspace_id": found.id},
    )


def of_session(session: Session) -> Workspace | None:
    """What the session is to begin with and has not yet."""
    return Workspace.objects.filter(session_id=session.id).first()


def parts(found: Workspace) -> Iterator[bytes]:
    """The packed tar, opened, in order. Raises IntegrityFailed where a part is missing or was changed."""
    count = 0
    for number in range(-(-found.stored_bytes // PART_BYTES)):
        part = WorkspacePart.objects.filter(workspace=found, number=number).first()
        if part is None:
            break
        data = steps.unseal.call(found.account_id, bytes(part.sealed))
        count += len(data)
        yield data
    if count != found.stored_bytes:
        raise IntegrityFailed("A part of the session's workspace is missing. Nothing of it was unpacked.", next_action=_ANOTHER)


def forget(session: Session) -> int:
    """What the session was given, unpacked or not. Returns how many rows went."""
    return Workspace.objects.filter(session_id=session.id).delete()[0]


def forget_expired() -> int:
    """A batch of those whose time is over. Returns how many.

    One that a session has taken and not unpacked stays while that session may still get its machine: it would begin without its files else.
    """
    awaited = Session.objects.filter(id=OuterRef("session_id"), runtime_state=SessionState.PROVISIONING)
    over = Workspace.objects.filter(~Exists(awaited), expires_at__lt=Now())
    old = over.order_by("expires_at").values_list("id", flat=True)[:_BATCH]
    expired = Workspace.objects.filter(id__in=list(old))
    count = expired.count()
    expired.delete()
    return count


def erase_session(session: Session) -> dict[str, Any]:
    return {"workspaces": forget(session)}


def erase_account(account: Account) -> dict[str, Any]:
    held = Workspace.objects.filter(account=account)
    count = held.count()
    held.delete()
    return {"workspaces": count}


def export_account(account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    """By reference: what it was, not its content."""
    for row in Workspace.objects.filter(account=account).values("id", "session_id", "sha256", "size", "files", "created_at", "expires_at"):
        yield "workspace", {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
