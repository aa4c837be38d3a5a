"""An account with a mark in everything that a customer can put anywhere, and a search for it in all that the service keeps."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models.functions import Now

from checkpoints_app.services import storage
from checkpoints_app.store import Kind, account_prefix, object_key
from gateway_app.models import (
    AccountBudget,
    Call,
    CallPiece,
    EgressLine,
    EgressPolicy,
    EgressSum,
    KeyBinding,
    ProviderKey,
    SessionBudget,
    Steer,
    UsageEntry,
    WindowEntry,
)
from sessions_app.models import Account, ApiToken, Membership, Session, WebhookEndpoint, Workspace, WorkspacePart
from sessions_app.services import idle_policy, plan, steps
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from sessions_app.states import PlanKind
from tests.integration.operations.world import IMAGE, World, forget_cache, store_directory, succeeded

MARK = "planted-by-the-customer-7f3a"
_TABLES = "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"


def plant(world: World) -> Session:
    """A session whose name, save, command, output, memory and history bear the mark, in an account whose other rows bear it as well.

    Its machine runs from images that were assembled from the store.
    """
    account = world.account
    Account.objects.filter(id=account.id).update(name=MARK)
    account.refresh_from_db()
    session = succeeded(sessions.create(account, Wanted(image=IMAGE, name="planted-by-the-customer-7f3a", memory_mib=128), Asked())).session
    succeeded(world.ask_exec(session, "sh", "-c", f"echo {MARK}; echo {MARK} > {MARK}"))
    succeeded(sessions.checkpoint(session, stop=True, reason=MARK, asked=Asked()))
    forget_cache()
    session.refresh_from_db()
    world.resume(session)
    idle_policy.change(session, enabled=True, idle_minutes=60, warning_seconds=None, expected_revision=session.revision)
    plan.make(account, PlanKind.ACCOUNT_DELETION, session=None, content={"note": MARK}, basis={})
    user = get_user_model().objects.create(username=MARK, email=f"{MARK}@example.com")
    Membership.objects.create(user=user, account=account, role="owner")
    AccessAttempt.objects.create(username=MARK, ip_address="192.0.2.1", failures_since_start=1)  # it has mistyped its password
    user_type = ContentType.objects.get_for_model(user)
    LogEntry.objects.create(user=user, content_type=user_type, object_id=str(user.pk), object_repr=MARK, action_flag=2)
    ApiToken.objects.create(account=account, user=user, name=MARK, prefix="ks_", digest="d" * 64)
    WebhookEndpoint.objects.create(account=account, url=f"https://{MARK}.example.com", secret=steps.seal.call(account.id, MARK.encode()))
    Workspace.objects.create(
        id="ws_planted",
        account=account,
        sha256="0" * 64,
        size=1,
        files=1,
        content_bytes=1,
        stored_sha256="0" * 64,
        stored_bytes=1,
        expires_at=Now() + timedelta(days=1),
    )
    WorkspacePart.objects.create(workspace_id="ws_planted", number=0, sealed=MARK.encode())
    plant_calls(session)
    storage.backend().put_if_absent(object_key(account.id, Kind.PACK, "f" * 64), [MARK.encode()])  # of a save that was killed
    return session


def plant_calls(session: Session) -> None:
    """All that the gateway keeps of a session; what it keeps sealed bears the mark open, so that it is found if it stays."""
    account: Account = session.account
    of_session: dict[str, Any] = {"session": session}
    made = ProviderKey.objects.create(account=account, provider="anthropic", alias=MARK, last4="7f3a", secret=MARK.encode())
    KeyBinding.objects.create(**of_session, provider="anthropic", key=made)
    call = Call.objects.create(account=account, **of_session, epoch=1, started=1, provider="anthropic", model=MARK, headers=[["id", MARK]])
    CallPiece.objects.create(call=call, section="request", number=0, start=0, sealed=MARK.encode())
    bill: dict[str, Any] = {"epoch": 1, "call": call, "served": "upstream", "billed": True, "model": MARK}
    UsageEntry.objects.create(account=account, **of_session, **bill)
    WindowEntry.objects.create(**of_session, epoch=9, call=call, why="lost", order=1, open_until=Now(), consumed_by=MARK)
    Steer.objects.create(**of_session, sealed_text=MARK.encode())
    EgressPolicy.objects.create(**of_session, rules=[{"host": f"{MARK}.example.com", "ports": [443]}])
    EgressLine.objects.create(**of_session, host=f"{MARK}.example.com", port=443, outcome="denied", last_at=Now())
    EgressSum.objects.create(**of_session, refusals=1)
    SessionBudget.objects.update_or_create(**of_session)
    AccountBudget.objects.update_or_create(account=account)


def rows_with(text: str) -> dict[str, int]:
    """Of every table of the database, how many rows bear it: in any column, as text or within bytes."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        for (table,) in cursor.fetchall():
            cursor.execute(
                f"SELECT count(*) FROM {table} AS one WHERE strpos(one::text, %s) > 0 OR strpos(one::text, %s) > 0",
                [text, text.encode().hex()],
            )
            (count,) = cursor.fetchone()
            if count:
                found[table] = count
    return found


def files_with(text: str) -> list[str]:
    """Below the host's directory and in the store, by content or by name. Files are read whole: those here are small or sparse."""
    return [str(path) for path in _files() if text in path.name or text.encode() in path.read_bytes()]


def stored_of(account_id: str) -> list[str]:
    return [one.key for one in storage.backend().list(account_prefix(account_id))]


def _files() -> Iterator[Path]:
    for root in (Path(settings.KEEPSTATE_VAR), store_directory()):
        yield from (path for path in root.rglob("*") if path.is_file())


def everything(account_id: str, logs: str) -> dict[str, Any]:
    """Where the mark, or the account's id where it must not be, is found."""
    kept = {"sessions_app_servicerecord", "sessions_app_accountdeletion", "checkpoints_app_erasurereceipt"}
    ids = {table: count for table, count in rows_with(account_id).items() if table not in kept}
    found = {"rows": rows_with(MARK), "rows of the account": ids, "files": files_with(MARK), "objects": stored_of(account_id)}
    return {where: what for where, what in {**found, "logs": logs.count(MARK)}.items() if what}
