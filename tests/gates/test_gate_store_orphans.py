"""Gate: what no row names is quarantined and deleted in its time by the database's clock, and by no listing that failed."""

from datetime import timedelta
from itertools import product

import pytest
from django.db.models import F

from checkpoints_app.models import OrphanObject, Pack
from checkpoints_app.services import orphans, storage
from checkpoints_app.store import UnavailableError
from checkpoints_app.store.names import QUARANTINE
from tests.gates.erasure import process, skewed
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_fixtures import on_each, shelf, store
from tests.support.shelf_places import DirectoryPlace, StorePlace

__all__ = ["shelf", "store"]

IMAGE = content(UNITS, 1)
HOUR = 3600
ENDINGS = {"unavailable": UnavailableError("broke off"), "denied": PermissionError("denied"), "silent": None}


def keys_now() -> set[str]:
    return {listed.key for listed in storage.backend().list("")}


def abandoned(shelf: Shelf) -> set[str]:
    before = keys_now()
    shelf.store(shelf.begin(shelf.session(), None), content(UNITS, 5))
    return keys_now() - before


def hours_pass(hours: float) -> None:
    """For the database."""
    for name in ("first_seen_at", "quarantined_at"):
        OrphanObject.objects.filter(**{f"{name}__isnull": False}).update(**{name: F(name) - timedelta(hours=hours)})


def sweep_with_clock(store: StorePlace, wrong_by: int, sabotage: str = "none") -> None:
    """By a worker whose clock is wrong, and so is the store's where the store is a directory.

    An S3 server has a clock of its own and refuses such a worker: it must have done nothing then, and one whose clock is right comes after.
    """
    there = store.keys()
    if isinstance(store, DirectoryPlace):
        store.shift_times(wrong_by)
        assert process.run("tests.gates.erasure.skewed", str(wrong_by), sabotage) == 0
    else:
        assert process.run("tests.gates.erasure.skewed", str(wrong_by), sabotage) == skewed.REFUSED
        assert store.keys() == there
        orphans.sweep()


@pytest.mark.gate("store", "a clock an hour wrong, in the worker and in the store, moves and deletes nothing early and keeps nothing late")
@pytest.mark.parametrize(("store", "wrong_by"), on_each([-HOUR, HOUR], [HOUR]), indirect=["store"])
def test_a_wrong_clock(shelf: Shelf, store: StorePlace, evidence: dict[str, object], wrong_by: int) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    walk_through(store, lost, wrong_by, "none")
    shelf.assert_whole(row)
    shelf.assert_exact()
    evidence |= {"clock wrong by seconds": wrong_by, "orphans": len(lost)}


def walk_through(store: StorePlace, lost: set[str], wrong_by: int, sabotage: str) -> None:
    """The life of orphans, half an hour before and after each of its limits."""
    hours_pass(23.5)
    sweep_with_clock(store, wrong_by, sabotage)
    assert lost <= keys_now(), "quarantined too early"
    hours_pass(1)
    sweep_with_clock(store, wrong_by, sabotage)
    assert {QUARANTINE + key for key in lost} <= keys_now(), "not quarantined in time"
    hours_pass(7 * 24 - 0.5)
    sweep_with_clock(store, wrong_by, sabotage)
    assert {QUARANTINE + key for key in lost} <= keys_now(), "deleted too early"
    hours_pass(1)
    sweep_with_clock(store, wrong_by, sabotage)
    assert not any(key.startswith(QUARANTINE) for key in keys_now()), "not deleted in time"


def test_the_gate_notices_a_worker_that_believes_its_own_clock(shelf: Shelf, store: StorePlace) -> None:
    shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    with pytest.raises(AssertionError, match="too early"):
        walk_through(store, lost, HOUR, "own_clock")


def break_listing(monkeypatch: pytest.MonkeyPatch, after: int, error: Exception | None) -> None:
    """It ends early: with the error, or (a server that lies) as if it were complete."""
    whole = storage.backend().list

    def broken(prefix: str):
        for number, listed in enumerate(whole(prefix)):
            if number == after:
                if error is not None:
                    raise error
                return
            yield listed

    monkeypatch.setattr(storage.backend(), "list", broken)


@pytest.mark.gate("store", "a listing that fails, or ends early without saying so, deletes nothing that lives and nothing before its time")
@pytest.mark.parametrize(
    ("store", "after", "how"), on_each(product([0, 1, 3, 5, 7], ENDINGS), product([3], ["unavailable", "silent"])), indirect=["store"]
)
def test_a_bad_listing(shelf: Shelf, evidence: dict[str, object], monkeypatch: pytest.MonkeyPatch, after: int, how: str) -> None:
    error = ENDINGS[how]
    row = shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    hours_pass(25)
    there = keys_now()
    with monkeypatch.context() as patch:
        break_listing(patch, after, error)
        if error is None:
            orphans.sweep()
        else:
            with pytest.raises(type(error)):
                orphans.sweep()
    if error is not None:
        assert keys_now() == there
        assert OrphanObject.objects.count() == len(lost)
    moved = {key.removeprefix(QUARANTINE) for key in keys_now() if key.startswith(QUARANTINE)}
    assert moved <= lost
    assert there - lost <= keys_now()
    shelf.assert_whole(row)
    evidence |= {"listed before the end": after, "objects": len(there)}


def test_the_gate_notices_a_sweep_that_goes_by_the_listing_alone(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    monkeypatch.setattr(orphans, "_packs", lambda names: set())  # no row is asked
    orphans.sweep()
    hours_pass(25)
    orphans.sweep()
    with pytest.raises(Exception, match="not in the store"):
        shelf.assert_whole(row)
    assert Pack.objects.exists()
