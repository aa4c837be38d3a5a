"""An account with one of everything that a route can name, a mark in all that it has written, and whoever else might ask for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from gateway_app.models import KeyBinding, Steer
from gateway_app.services import provider_key
from sessions_app.models import ApiToken, Operation, Session, Workspace
from sessions_app.roles import Role
from sessions_app.services import event
from sessions_app.services import token as tokens
from sessions_app.services.webhooks import endpoint, outbox
from sessions_app.states import OperationKind, OperationState, SessionState
from tests.gates.accounts.asking import Ids
from tests.support.api import Caller, caller, new_key
from tests.support.fleet import HOST, Tenant, checkpoint_row, session_row, tenant
from tests.support.people import member

#: In every text that the account can write, and in no answer to anybody else.
MARK = "MarkOfTheVictim"


def ids_of(owner: Tenant, mark: str, state: SessionState = SessionState.RUNNING, *, idle: bool = False, plans: bool = True) -> Ids:
    """One record of every kind that a route names, each with the mark. `idle`: nothing was asked of the session since it was saved."""
    session = session_row(owner.account, state, name=mark)
    point = checkpoint_row(session, reason=mark)
    with transaction.atomic():
        event.append(session.id, "test.happened", {"reason": mark}, source="test")
        hook = endpoint.create(owner.account, url=f"https://example.com/{mark}", types=[]).endpoint
        message = outbox.tell_test(hook)
        key = provider_key.create(owner.account, provider="anthropic", secret=f"sk-secret-{mark}", alias=mark, actor="test")
    command = None if idle else Operation.objects.create(
        account=owner.account, session=session, kind=OperationKind.EXEC, state=OperationState.QUEUED, queue=f"io.{HOST}",
        idempotency_key=new_key(), parameters={"argv": [mark], "timeout_seconds": 1}, response={"stdout": mark},
    )  # fmt: skip
    archive = Workspace.objects.create(
        account=owner.account, sha256="0" * 64, size=1, files=1, content_bytes=1, stored_bytes=0, expires_at=Now() + timedelta(days=1)
    )
    KeyBinding.objects.create(session=session, provider="anthropic", key=key)
    Steer.objects.create(session=session, sealed_text=b"sealed", text_sha256="0" * 64)
    session.refresh_from_db()
    return Ids(
        by_name={
            "session_id": session.id,
            **({"operation_id": command.id} if command else {}),
            "checkpoint_id": point.id,
            "webhook_id": hook.id,
            "message_id": message.id,
            "workspace_id": archive.id,
            "key_id": key.id,
            "token_id": tokens.issue(owner.account, mark)[0].id,
            "member_id": member(owner.account, f"{mark}-{session.short_id}", Role.OPERATOR).id,
        },
        plans=plans_of(owner, session, key.id) if plans else {},
        revision=session.revision,
        epoch=session.epoch,
        account_name=owner.account.name,
    )


def plans_of(owner: Tenant, session: Session, key_id: str) -> dict[str, tuple[str, str | None]]:
    """By the route that executes it, a plan's id and digest."""

    def shown(path: str, **wanted: Any) -> dict[str, Any]:
        return dict(caller(owner)("POST", path, wanted).json()["data"])

    of_session = f"/api/v2/sessions/{session.id}"
    fork = shown(f"{of_session}/fork-plan", checkpoint_id=session.head_checkpoint_id, children=1)
    keeping = {
        "session-retention": shown(f"{of_session}/retention/preview", keep_last=1),
        "retention": shown("/api/v2/retention/preview", keep_last=1),
    }
    return {
        "session-fork-by-plan": (fork["id"], fork["plan_digest"]),
        "session-read": (shown(f"{of_session}/deletion-plan")["id"], None),
        "key": (shown(f"/api/v2/keys/{key_id}/deletion-plan")["id"], None),
        "account-deletion": (shown("/api/v2/account/deletion-plan")["id"], None),
        **{name: (found["plan_id"], found["plan_digest"]) for name, found in keeping.items()},
    }


@dataclass(frozen=True)
class Scene:
    """`victim` names what is the victim's; `own` what is the stranger's."""

    owner: Tenant
    victim: Ids
    stranger: Tenant
    own: Ids
    callers: Mapping[str, Caller]


def build(owner: Tenant) -> Scene:
    stranger = tenant("stranger")
    own = ids_of(stranger, "own", SessionState.PARKED)
    revoked, revoked_plain = tokens.issue(owner.account, "revoked")
    tokens.revoke(revoked)
    expired, expired_plain = tokens.issue(owner.account, "expired")
    ApiToken.objects.filter(id=expired.id).update(expires_at=Now() - timedelta(seconds=1))
    ended = member(owner.account, "ended", Role.OWNER)
    _, ended_plain = tokens.issue(owner.account, "ended", user=ended.user)
    ended.delete()
    callers = {
        "owner": caller(owner),
        "operator": _of(owner, Role.OPERATOR),
        "reader": _of(owner, Role.READER),
        "stranger": caller(stranger),
        "nobody": Caller(None),
        "revoked": Caller(revoked_plain),
        "expired": Caller(expired_plain),
        "no member any more": Caller(ended_plain),
    }
    victim = ids_of(owner, MARK)
    ApiToken.objects.update(last_used_at=Now() + timedelta(days=1))  # so that no request writes when its token was used
    return Scene(owner, victim, stranger, own, callers)


def _of(owner: Tenant, role: Role) -> Caller:
    return Caller(tokens.issue(owner.account, role, user=member(owner.account, role, role).user)[1])
