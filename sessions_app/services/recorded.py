"""One effect and one answer per Idempotency-Key, for mutations whose effect is no operation."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from sessions_app.models import Account, RecordedRequest, Session
from sessions_app.services import operation
from sessions_app.services.operation import Asked

#: A key that is older stands for nothing any more.
KEPT = timedelta(days=7)
_BATCH = 1000


@dataclass(frozen=True)
class Answer:
    """What a mutation answers. `told_once` is added to the first answer only and kept nowhere: a secret that is drawn by it.

    `session_id`: the session whose erasure takes this answer with it, if there is one.
    """

    data: Any
    status: int = 200
    told_once: dict[str, Any] = field(default_factory=dict)
    session_id: str = ""


def once(account: Account, asked: Asked, do: Callable[[], Answer]) -> tuple[Answer, bool]:
    """What `do` answers, or what it answered when the request came first; and whether it is that.

    `do` runs in a transaction with the row that records it. Of equal requests at the same time the second waits for the first. Raises what
    `do` raises (nothing is recorded then), and Conflict for a key that came with another request.
    """
    if asked.idempotency_key is None:
        with transaction.atomic():
            return do(), False
    operation.require_unused(account, asked)
    earlier = _earlier(account, asked)
    if earlier is not None:
        return earlier, True
    try:
        with transaction.atomic():
            row = _claim(account, asked, asked.idempotency_key)
            answer = do()
            row.status, row.answer, row.session_id = answer.status, answer.data, answer.session_id
            row.save(update_fields=["status", "answer", "session_id"])
            return answer, False
    except _Taken:
        winner = _earlier(account, asked)
        if winner is None:
            raise RuntimeError("a recorded request vanished while it was waited for") from None
        return winner, True


class _Taken(Exception):
    pass


def _claim(account: Account, asked: Asked, key: str) -> RecordedRequest:
    """Waits for whoever writes a row of that key: its commit makes this one a repetition, its rollback leaves the key to this one."""
    try:
        with transaction.atomic():
            return RecordedRequest.objects.create(
                account=account, key=key, method=asked.method, path=asked.path, body_digest=asked.body_digest
            )
    except IntegrityError:
        raise _Taken from None


def _earlier(account: Account, asked: Asked) -> Answer | None:
    row = RecordedRequest.objects.filter(account=account, key=asked.idempotency_key).first()
    if row is None:
        return None
    if (row.method, row.path, row.body_digest) != (asked.method, asked.path, asked.body_digest):
        raise operation.key_conflict({})
    return Answer(row.answer, row.status)


def find(account: Account, key: str) -> RecordedRequest | None:
    return RecordedRequest.objects.filter(account=account, key=key).first() if operation.KEY.fullmatch(key) else None


def erase_session(session: Session) -> dict[str, Any]:
    """A step of a session's erasure: an answer about it may hold its name."""
    return {"answers": RecordedRequest.objects.filter(session_id=session.id).delete()[0]}


def forget_old() -> int:
    """A batch of those whose key is too old to stand for anything. Returns how many."""
    old = RecordedRequest.objects.filter(created_at__lt=Now() - KEPT).order_by("created_at").values("id")[:_BATCH]
    return RecordedRequest.objects.filter(id__in=old).delete()[0]
