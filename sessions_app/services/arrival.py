"""A session whose machine was saved elsewhere: it begins parked, and has never run here."""

from typing import Any

from sessions_app.models import Account, Session
from sessions_app.services import account as accounts
from sessions_app.services import bounds, event, quota, record
from sessions_app.services.steps import ImageChoice
from sessions_app.states import SessionState


def require_machine(memory_bytes: object, cpus: object) -> tuple[int, int]:
    """The same two, or Invalid: what arrives is held to the bounds of what is started here."""
    memory_bytes = memory_bytes if type(memory_bytes) is int else -1
    cpus = cpus if type(cpus) is int else -1
    bounds.require_memory(memory_bytes // bounds.MIB if memory_bytes % bounds.MIB == 0 else -1)
    bounds.require_cpus(cpus)
    return memory_bytes, cpus


def park(
    account: Account, session_id: str, image: ImageChoice, *, memory_bytes: int, cpus: int, source: str, facts: dict[str, Any]
) -> Session:
    """Prerequisite: inside the transaction that gives it a checkpoint; without one it could never be resumed."""
    accounts.require_open(account.id)
    quota.require_import(account.id)
    session = Session.objects.create(
        id=session_id,
        account=account,
        runtime_state=SessionState.PARKED,
        park_reason="imported",
        image_name=image.name,
        image_digest=image.digest,
        architecture=image.architecture,
        memory_bytes=memory_bytes,
        cpus=cpus,
        budget_tokens=bounds.DEFAULT_BUDGET_TOKENS,
    )
    event.append(session.id, "session.imported", facts, source=source)
    session.refresh_from_db()
    record.moved(session, "session.imported", actor=source)
    return session
