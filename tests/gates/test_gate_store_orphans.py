"""Gate: what no row names is quarantined and deleted in its time by the database's clock, and by no listing that failed."""

import os
from datetime import timedelta

import pytest
from django.db.models import F

from checkpoints_app.models import OrphanObject, Pack
from checkpoints_app.services import orphans, storage
from checkpoints_app.store import UnavailableError
from checkpoints_app.store.names import QUARANTINE
from tests.gates.erasure import process
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_fixtures import shelf, store

__all__ = ["shelf", "store"]

IMAGE = content(UNITS, 1)
HOUR = 3600


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


def sweep_with_clock(shelf: Shelf, wrong_by: int, sabotage: str = "none") -> None:
    for path in store_files(shelf):
        at = path.stat().st_mtime + wrong_by  # the store's clock is wrong too
        os.utime(path, (at, at))
    assert process.run("tests.gates.erasure.skewed", str(wrong_by), sabotage) == 0


def store_files(shelf: Shelf):
    root = shelf.path("accounts/x").parents[2]
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.gate("store", "a clock an hour wrong, in the worker and in the store, moves and deletes nothing early and keeps nothing late")
@pytest.mark.parametrize("wrong_by", [-HOUR, HOUR])
def test_a_wrong_clock(shelf: Shelf, evidence: dict[str, object], wrong_by: int) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    walk_through(shelf, lost, wrong_by, "none")
    shelf.assert_whole(row)
    shelf.assert_exact()
    evidence |= {"clock wrong by seconds": wrong_by, "orphans": len(lost)}


def walk_through(shelf: Shelf, lost: set[str], wrong_by: int, sabotage: str) -> None:
    """The life of orphans, half an hour before and after each of its limits."""
    hours_pass(23.5)
    sweep_with_clock(shelf, wrong_by, sabotage)
    assert lost <= keys_now(), "quarantined too early"
    hours_pass(1)
    sweep_with_clock(shelf, wrong_by, sabotage)
    assert {QUARANTINE + key for key in lost} <= keys_now(), "not quarantined in time"
    hours_pass(7 * 24 - 0.5)
    sweep_with_clock(shelf, wrong_by, sabotage)
    assert {QUARANTINE + key for key in lost} <= keys_now(), "deleted too early"
    hours_pass(1)
    sweep_with_clock(shelf, wrong_by, sabotage)
    assert not any(key.startswith(QUARANTINE) for key in keys_now()), "not deleted in time"


def test_the_gate_notices_a_worker_that_believes_its_own_clock(shelf: Shelf) -> None:
    shelf.save(shelf.session(), IMAGE)
    lost = abandoned(shelf)
    orphans.sweep()
    with pytest.raises(AssertionError, match="too early"):
        walk_through(shelf, lost, HOUR, "own_clock")


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
@pytest.mark.parametrize("after", [0, 1, 3, 5, 7])
@pytest.mark.parametrize("error", [UnavailableError("broke off"), PermissionError("denied"), None], ids=["unavailable", "denied", "silent"])
def test_a_bad_listing(
    shelf: Shelf, evidence: dict[str, object], monkeypatch: pytest.MonkeyPatch, after: int, error: Exception | None
) -> None:
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
