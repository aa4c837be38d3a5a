"""Synthetic rows of a large installation, made by the database itself: sessions with checkpoints, packs, events and operations.

Three sessions in five are one account's, the others forty accounts'. Each session has ten checkpoints that need its one pack, a hundred
events and ten operations, or as many as are asked for; the newest of the large account has a long history besides, to be read at its end.
"""

from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

from tests.bench import copies

LARGE = "acct_bench_large"
ACCOUNTS = 40
CHECKPOINTS, EVENTS, OPERATIONS = 10, 100, 10
LONG = 20  # times as many checkpoints and events in the session that is read at its end
PIN, IMAGE = "1" * 64, "2" * 64
UNITS = "'\\x000010'::bytea"  # all of 4096 (checkpoints_app/store/bitmap.py)


@dataclass(frozen=True)
class Depth:
    """What each session has."""

    checkpoints: int = CHECKPOINTS
    events: int = EVENTS
    operations: int = OPERATIONS


WHOLE = Depth()

_NAMES = """
CREATE OR REPLACE FUNCTION bench_session(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT md5('session' || n) $$;
CREATE OR REPLACE FUNCTION bench_account(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN n %% 5 < 3 THEN 'acct_bench_large' ELSE 'acct_bench_' || n %% {accounts} END $$;
CREATE OR REPLACE FUNCTION bench_checkpoint(n bigint, k bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'ck_' || left(md5('checkpoint' || n || '.' || k), 24) $$;
CREATE OR REPLACE FUNCTION bench_pack(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(('pack' || n)::bytea), 'hex') $$;
"""


def prepare(*, with_image: bool = True) -> None:
    """Without the image where the installation has one of that name."""
    from checkpoints_app.models import Image, Pin
    from sessions_app.models import Account

    with connection.cursor() as cursor:
        cursor.execute(_NAMES.format(accounts=ACCOUNTS).replace("%%", "%"))
    Account.objects.create(id=LARGE, name="large")
    Account.objects.bulk_create([Account(id=f"acct_bench_{n}", name=f"small {n}") for n in range(ACCOUNTS)])
    Pin.objects.create(digest=PIN, architecture="x86_64", facts={})
    if with_image:
        Image.objects.create(digest=IMAGE, name="tiny", architecture="x86_64", default_memory_bytes=1 << 30)


def grow(first: int, last: int, depth: Depth = WHOLE) -> None:
    """Sessions first to last with all that is theirs. Session 0 is the one with the long history."""
    from checkpoints_app.models import Checkpoint, PackEdge
    from sessions_app.models import Operation, Session, SessionEvent

    with copies.bare(Checkpoint, PackEdge, Operation, Session, SessionEvent):
        _grow(f"generate_series({first}::bigint, {last}::bigint) n", depth, long_too=first == 0)


def _grow(several: str, depth: Depth, *, long_too: bool) -> None:
    _sessions(several, depth)
    _checkpoints(several, depth.checkpoints)
    _packs(several, depth.checkpoints)
    _events(several, depth.events)
    _operations(several, depth.operations)
    if long_too:
        _checkpoints("(SELECT 0::bigint AS n) one", depth.checkpoints * LONG, beyond=depth.checkpoints)
        _events("(SELECT 0::bigint AS n) one", depth.events * LONG, beyond=depth.events)


def settle() -> None:
    """Fresh statistics, and no row that is still to be tidied. Outside of a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _sessions(several: str, depth: Depth) -> None:
    from sessions_app.models import Account, Session

    like = Session(
        account=Account(id=LARGE), image_name="tiny", image_digest=IMAGE, architecture="x86_64", memory_bytes=2 << 30,
        cpus=1, budget_tokens=1000, pin_digest=PIN, epoch=3, park_reason="requested", head_checkpoint_at=timezone.now(),
    )  # fmt: skip
    copies.insert(
        like,
        several,
        id="bench_session(n)",
        account_id="bench_account(n)",
        name="CASE WHEN n % 3 = 0 THEN 'agent-' || n ELSE '' END",
        runtime_state="CASE WHEN n % 20 = 7 THEN 'deleted' WHEN n % 20 = 8 THEN 'failed' ELSE 'parked' END",
        head_checkpoint_id=f"bench_checkpoint(n, {depth.checkpoints})",
        event_count=str(depth.events),
        created_at="now() - interval '1 day' - n * interval '1 second'",
        last_activity_at="now() - n * interval '1 second'",
    )


def _checkpoints(several: str, count: int, *, beyond: int = 0) -> None:
    from checkpoints_app.models import Checkpoint

    like = Checkpoint(
        account_id=LARGE, session_id="", state="published", operation_id="op_bench", lease_token=1, pin_id=PIN,
        image_digest=IMAGE, source_epoch=1, event_watermark=1, logical_bytes=2 << 30, written_bytes=1 << 20, unique_bytes=1 << 20,
        stored_bytes=1 << 19, pause_seconds=0.03, published_at=timezone.now(),
    )  # fmt: skip
    copies.insert(
        like,
        f"{several}, generate_series({beyond + 1}, {count}) k",
        id="bench_checkpoint(n, k)",
        account_id="bench_account(n)",
        session_id="bench_session(n)",
        manifest_id="md5('manifest' || n || '.' || k) || md5(n || '.' || k)",
        content_digest="md5('content' || n || '.' || k) || md5(n || '.' || k)",
        memory_root="md5('memory' || n || '.' || k) || md5(n || '.' || k)",
        created_at="now() - n * interval '1 second' - k * interval '1 minute'",
    )


def _packs(several: str, checkpoints: int) -> None:
    from checkpoints_app.models import Pack, PackEdge

    copies.insert(
        Pack(account_id=LARGE, state="live", stored_bytes=6_000_000, unit_count=4096, units=b""),
        several,
        id="bench_pack(n)",
        account_id="bench_account(n)",
        units=UNITS,
    )
    copies.insert(
        PackEdge(checkpoint_id="", pack_id="", units=b""),
        f"{several}, generate_series(1, {checkpoints}) k",
        checkpoint_id="bench_checkpoint(n, k)",
        pack_id="bench_pack(n)",
        units=UNITS,
    )


def _events(several: str, count: int, *, beyond: int = 0) -> None:
    from sessions_app.models import SessionEvent

    copies.insert(
        SessionEvent(session_id="", number=0, epoch=1, type="checkpoint.published", source="bench", subject_id="", payload={"type": "x"}),
        f"{several}, generate_series({beyond + 1}, {count}) k",
        id="'evt_' || lpad(to_hex(n * 100000 + k), 24, '0')",
        session_id="bench_session(n)",
        subject_id="bench_session(n)",
        number="k",
        payload="jsonb_build_object('type', 'checkpoint.published', 'checkpoint_id', bench_checkpoint(n, 1), 'stored_bytes', k)",
    )


def _operations(several: str, count: int) -> None:
    from sessions_app.models import Operation

    like = Operation(
        account_id=LARGE, session_id="", kind="checkpoint", state="succeeded", queue="host.bench", method="POST",
        path="/api/sessions/x/checkpoint", attempt=1, lease_token=1, lease_owner="bench", http_status=200,
        response={"state": "parked"}, started_at=timezone.now(), finished_at=timezone.now(),
    )  # fmt: skip
    copies.insert(
        like,
        f"{several}, generate_series(1, {count}) k",
        id="'op_' || left(md5('operation' || n || '.' || k), 24)",
        account_id="bench_account(n)",
        session_id="bench_session(n)",
        accepted_at="now() - n * interval '1 second' - k * interval '1 minute'",
    )
