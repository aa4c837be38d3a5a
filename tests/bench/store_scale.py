"""`./keepstate bench scale`: what publishing, looking up for a restore and erasing cost while an account grows to 10^6 packs."""

import json
import os
import random
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstate_site.stack import commands
from tests.bench.report import Row, arguments, publish, quantile, row
from tests.support.outside_data import remove_below

METHOD = (
    "A PostgreSQL of its own with one account of 20 packs and 2 checkpoints a session, grown from 10^4 to 10^5 and 10^6 packs by synthetic "
    "rows (tests/bench/scale_rows.py); then the services' own functions on sessions picked at random, in a warm process on one connection. "
    "Put: the publication of a checkpoint with 2 new packs and 20 old ones, one commit; and the queries of its dedup lookup. Get: the "
    "look-up of a checkpoint and its packs for a restore. Erase: a whole session; the store is a local directory without its packs, so "
    "that rows are what is measured. Budget: twice the median at 10^4 packs. EXPLAIN of every statement is kept in the JSON."
)
PACKS = (10**4, 10**5, 10**6)
TIMES = 40
ACTIONS = ("put: publication", "put: where content is looked up", "get: checkpoint and packs", "erase: a session")


def main() -> int:
    options = arguments(METHOD)
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        told = Path(directory) / "told.json"
        environment = {"KEEPSTATE_BENCH_TOLD": str(told), "CHECKPOINT_STORE_URL": (Path(directory) / "store").as_uri()}
        os.environ.update(environment)
        try:
            code = commands.run(Path(directory) / "var", [sys.executable, "-m", "tests.bench.store_scale", "inside"])
        finally:
            remove_below(Path(directory))  # root's database lies elsewhere, and is large
        if code:
            return code
        measured: dict[str, Any] = json.loads(told.read_text())
    rows: list[Row] = []
    for action in ACTIONS:
        smallest = quantile(measured["milliseconds"][action][str(PACKS[0])], 0.5)
        for packs in PACKS:
            budget = None if packs == PACKS[0] else round(2 * smallest, 3)
            rows.append(row(f"{action}, {packs:.0e} packs", "ms", measured["milliseconds"][action][str(packs)], budget=budget, at="p50"))
    return publish("scale", METHOD, rows, options.json, explain=measured["explain"])


def inside() -> None:
    """In the stack's environment, on a test database."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment

    setup_test_environment()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        told = measure()
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)
    Path(os.environ["KEEPSTATE_BENCH_TOLD"]).write_text(json.dumps(told))


def measure() -> dict[str, Any]:
    from checkpoints_app.models import Image, Pin
    from checkpoints_app.services import key
    from sessions_app.models import Account
    from tests.bench import scale_rows as rows

    Account.objects.create(id=rows.ACCOUNT, name="scale")
    Pin.objects.create(digest=rows.PIN, architecture="x86_64", facts={})
    Image.objects.create(digest=rows.IMAGE, name="tiny", architecture="x86_64", default_memory_bytes=1 << 30)
    key.keys_to_save(rows.ACCOUNT)  # the store has something of the account, as it should
    milliseconds: dict[str, dict[int, list[float]]] = {action: {} for action in ACTIONS}
    explain: dict[str, dict[int, list[str]]] = {action: {} for action in ACTIONS}
    there = 0
    for packs in PACKS:
        sessions = packs // rows.PACKS_PER_SESSION
        began = time.perf_counter()
        rows.grow(there, sessions - 1)
        print(f"{packs:.0e} packs there after {time.perf_counter() - began:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        chosen = rows.session_ids(random.Random(packs).sample(range(there, sessions), TIMES + 1))
        there = sessions
        for action, prepare in zip(ACTIONS, (_publication, _dedup, _restore, _erasure), strict=True):
            explain[action][packs] = explained(prepare(chosen[0]))
            milliseconds[action][packs] = [timed(prepare(session_id)) for session_id in chosen[1:]]
    return {"milliseconds": milliseconds, "explain": explain}


# -- each returns the work to be timed, with everything before it done


def _publication(session_id: str) -> Callable[[], object]:
    from django.db import transaction

    from checkpoints_app.models import Checkpoint, Pack
    from checkpoints_app.services import publish as publication
    from checkpoints_app.services.relied import version_of
    from checkpoints_app.states import CheckpointState
    from checkpoints_app.store.bitmap import all_units, encode_units
    from sessions_app.models import Session
    from sessions_app.services.lease import Lease
    from tests.bench import scale_rows as rows

    session = Session.objects.get(id=session_id)
    head = Checkpoint.objects.get(id=session.head_checkpoint_id)
    old = {pack.id: version_of(pack) for pack in Pack.objects.filter(edges__checkpoint=head)}
    new = [publication.StoredPack(secrets.token_hex(32), 6_000_000, 4096) for _ in range(2)]
    checkpoint = Checkpoint.objects.create(
        account_id=rows.ACCOUNT, session=session, parent=head, state=CheckpointState.UPLOADING, operation_id="op", lease_token=7,
        pin_id=rows.PIN, image_digest=rows.IMAGE, source_epoch=session.epoch, event_watermark=0,
    )  # fmt: skip
    whole = encode_units(all_units(4096))
    stored = publication.Stored(
        manifest_id=secrets.token_hex(32), content_digest="3" * 64, memory_root="4" * 64, disk_root="", logical_bytes=1, unique_bytes=1,
        stored_bytes=1, manifest_bytes=1, ancestors=[head.manifest_id], new_packs=new,
        needed_units=dict.fromkeys([*old, *(pack.id for pack in new)], whole), relied_on=old,
    )  # fmt: skip

    def act() -> None:
        with transaction.atomic():
            publication.publish(checkpoint, stored, Lease("op", 7, 1, 60), source="bench")

    return act


def _dedup(session_id: str) -> Callable[[], object]:
    from checkpoints_app.models import Pack
    from checkpoints_app.services import dedup
    from tests.bench import scale_rows as rows

    needed = list(Pack.objects.filter(edges__checkpoint__session_id=session_id).distinct().values_list("id", flat=True))

    def act() -> None:
        dedup._at_rest(rows.ACCOUNT, needed)
        dedup._newest(rows.ACCOUNT, exclude=set(needed))

    return act


def _restore(session_id: str) -> Callable[[], object]:
    from checkpoints_app.models import Pack
    from checkpoints_app.services import checkpoint, storage
    from sessions_app.models import Session

    session = Session.objects.get(id=session_id)
    needed = list(Pack.objects.filter(edges__checkpoint_id=session.head_checkpoint_id).values_list("id", flat=True))

    def act() -> None:
        checkpoint.restorable(session, session.head_checkpoint_id)
        storage.generations(needed)

    return act


def _erasure(session_id: str) -> Callable[[], object]:
    from checkpoints_app.services import erase
    from sessions_app.models import Session

    session = Session.objects.get(id=session_id)
    return lambda: erase.erase_session(session)


def timed(action: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def explained(action: Callable[[], object]) -> list[str]:
    """Do it once, and what the database says of each statement that it made: a plan as text, each kind of statement once."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        action()
    plans: dict[str, str] = {}
    for query in captured.captured_queries:
        words = query["sql"]
        if words.split(" ", 1)[0] in ("SELECT", "INSERT", "UPDATE", "DELETE") and "advisory" not in words:
            kind = re.sub(r"'[^']*'(, '[^']*')*|\b\d+\b", "?", words)
            if kind not in plans:
                with connection.cursor() as cursor:
                    cursor.execute("EXPLAIN " + words.replace("%", "%%"))
                    plans[kind] = f"{words[:300]}\n" + "\n".join(line for (line,) in cursor.fetchall())
    return list(plans.values())


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        inside()
        raise SystemExit(0)
    raise SystemExit(main())
