"""Gate: after any history of saves, forks, erasures, scrubs and damage, live content is readable and dead content is gone.

The histories of a run are drawn anew each time. A long run (docs/methodology.md): KEEPSTATE_HISTORIES=3000 in the environment.
"""

import os
import secrets
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as run_settings
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from checkpoints_app.models import Pack
from checkpoints_app.services import dedup, integrity, pack
from checkpoints_app.states import PackState
from tests.gates.erasure.history import History
from tests.store_kit import quick_directory
from tests.support.shelf import Shelf
from tests.support.shelf_fixtures import configured, on_each, shelf, store
from tests.support.shelf_places import BucketPlace, DirectoryPlace, StorePlace

__all__ = ["shelf", "store"]

HISTORIES = int(os.environ.get("KEEPSTATE_HISTORIES", "8"))
S3_HISTORIES = max(2, HISTORIES // 5)
MOST_UNTIL_NOTICED = 100  # of a sabotage, which one history in five or so shows
STEPS = 14
SECONDS_EACH = 5  # far more than a history takes, so that a long run is given its time
_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

NewPlace = Callable[[], StorePlace]


@pytest.fixture
def new_place(store: StorePlace) -> Iterator[NewPlace]:
    """An empty store of the test's kind, configured instead of the one before."""
    with quick_directory() as directory, ExitStack() as present:

        def made() -> StorePlace:
            place: StorePlace = DirectoryPlace(Path(directory) / secrets.token_hex(8))
            if isinstance(store, BucketPlace):
                place = BucketPlace(store.server)
            present.close()
            present.enter_context(configured(place))
            return place

        yield made


def run(new_place: NewPlace, examples: int, *, shrink: bool = True) -> int:
    """Histories that were run. Each has an account and a store of its own."""
    ran = 0

    class Here(History):
        def new_place(self) -> StorePlace:
            nonlocal ran
            ran += 1
            return new_place()

    run_state_machine_as_test(
        Here,
        settings=run_settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=_CHECKS,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            database=None,
            report_multiple_bugs=False,
        ),
    )
    return ran


@pytest.mark.gate("store", "after any history of saves, forks, erasures, scrubs and damage, live content reads and dead content is gone")
@pytest.mark.parametrize(("store", "histories"), on_each([HISTORIES], [S3_HISTORIES]), indirect=["store"])
@pytest.mark.timeout(300 + SECONDS_EACH * HISTORIES)
def test_any_history(shelf: Shelf, new_place: NewPlace, evidence: dict[str, object], histories: int) -> None:
    evidence["histories"] = run(new_place, histories)


@pytest.mark.timeout(300 + SECONDS_EACH * MOST_UNTIL_NOTICED)
def test_the_gate_notices_shared_packs_that_stay_whole(shelf: Shelf, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_decide", deciding_by_edges_alone(pack._decide))
    with pytest.raises((AssertionError, FlakyFailure)) as noticed:  # the second: the same history drawn again went on another way
        run(new_place, MOST_UNTIL_NOTICED, shrink=False)
    assert "AssertionError" in "".join(traceback.format_exception(noticed.value))


def test_the_gate_notices_damage_that_marks_nobody(shelf: Shelf, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """One history that shows it: at random it takes some dozens until a damaged checkpoint is left at the end."""
    damaged_and_scrubbed(new_place)
    monkeypatch.setattr(integrity, "mark", lambda *arguments, **options: False)
    with pytest.raises(AssertionError, match="called whole and is refused"):
        damaged_and_scrubbed(new_place)


def test_the_gate_notices_a_save_that_is_offered_what_is_known_to_be_bad(
    shelf: Shelf, new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One history that shows it: any of some hundred at random need not."""
    damaged_scrubbed_and_saved_again(new_place)
    monkeypatch.setattr(dedup, "_good_ids", lambda table, row: table.ids_by_number)
    monkeypatch.setattr(dedup, "_OFFERED", tuple(PackState))
    with pytest.raises(AssertionError, match="known to be bad"):
        damaged_scrubbed_and_saved_again(new_place)


def begun(new_place: NewPlace) -> History:
    class Here(History):
        def new_place(self) -> StorePlace:
            return new_place()

    history = Here()
    history.begin(full=True, written={})
    return history


def damaged_and_scrubbed(new_place: NewPlace) -> None:
    history = begun(new_place)
    history.damage(0, 0, 0)
    history.scrub(orphans_too=False)
    history.teardown()


def damaged_scrubbed_and_saved_again(new_place: NewPlace) -> None:
    history = begun(new_place)
    history.the_same_again(0)  # by which this host learns of the first one's packs
    history.damage(0, 0, 0)
    history.scrub(orphans_too=False)
    history.the_same_again(0)
    history.teardown()


def deciding_by_edges_alone(decide):
    def decided(pack_id: str, *, heal: bool):
        found = decide(pack_id, heal=heal)
        if found is not None and found.action == "rewrite" and not heal:
            Pack.objects.filter(id=pack_id).update(state="live")
            return None
        return found

    return decided
