"""Who judges, heals, erases and saves at once waits for each other, and nobody is thrown out: all lock in one order."""

import threading
from collections.abc import Callable
from itertools import count

from django.db import connection, transaction

from checkpoints_app.models import Checkpoint, Manifest, Pack
from checkpoints_app.services import integrity, verify
from checkpoints_app.store import Kind, object_key
from sessions_app.models import Session
from sessions_app.services import event
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf
from tests.support.threads import at_once
from tests.support.waiting import until

IMAGE = content(UNITS, 1)


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees one picture else
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return bool(cursor.fetchone()[0])


def beside(first: Callable[[], object], other: Callable[[], object], then: Callable[[], object]) -> None:
    """`first` and `then` in one transaction; between them another worker does `other`, as far as it comes."""
    begun = threading.Event()

    def act(number: int) -> None:
        if number == 0:
            begun.wait(30)
            other()
            return
        with transaction.atomic():
            first()
            begun.set()
            until(somebody_waits, 30, "the other waits")
            then()

    at_once(2, act)


def two_that_share(shelf: Shelf) -> tuple[Session, Session, list[Checkpoint]]:
    """Sessions in the order of their ids, and checkpoints in the order of theirs, of which the first is the second session's."""
    for seed in count(1):  # ids are drawn
        low, high = sorted((shelf.session(), shelf.session()), key=lambda session: session.id)
        of_low, of_high = shelf.save(low, content(UNITS, seed)), shelf.save(high, content(UNITS, seed))
        if of_high.id < of_low.id:
            return low, high, [of_high, of_low]
    raise AssertionError


def lock(session: Session) -> None:
    event.append(session.id, "test", source="test")


def test_a_damage_that_costs_checkpoints_of_several_sessions_beside_who_needs_these_sessions_too(shelf: Shelf) -> None:
    low, high, rows = two_that_share(shelf)
    edge = rows[0].edges.first()
    assert edge is not None
    shelf.path(object_key(shelf.account.id, Kind.PACK, edge.pack_id)).unlink()
    beside(lambda: lock(low), lambda: verify.pack(Pack.objects.get(id=edge.pack_id)), lambda: lock(high))
    assert {Checkpoint.objects.get(id=row.id).state for row in rows} == {"corrupt"}


def test_a_manifest_that_is_lost_beside_who_needs_the_sessions_of_its_descendants(shelf: Shelf) -> None:
    low, high, rows = two_that_share(shelf)
    manifest = Manifest.objects.get(id=rows[0].manifest_id)
    manifest.edges.create(checkpoint=rows[1])
    shelf.path(object_key(shelf.account.id, Kind.MANIFEST, manifest.id)).unlink()
    beside(lambda: lock(low), lambda: verify.manifest(manifest), lambda: lock(high))
    assert {Checkpoint.objects.get(id=row.id).state for row in rows} == {"corrupt"}


def test_a_head_that_is_whole_again_beside_the_beginning_of_a_save(shelf: Shelf) -> None:
    session = shelf.session()
    head = shelf.save(session, IMAGE)
    Checkpoint.objects.filter(id=head.id).update(state="corrupt")
    beside(lambda: lock(session), lambda: integrity.reconsider([head.id]), lambda: shelf.begin(session, head))
    head.refresh_from_db()
    assert head.state == "published"
