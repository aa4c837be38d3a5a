"""Gate: after any history of saves, forks, erasures, scrubs and damage, live content is readable and dead content is gone."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as run_settings
from hypothesis.stateful import run_state_machine_as_test

from checkpoints_app.models import Pack
from checkpoints_app.services import dedup, integrity, pack
from checkpoints_app.states import PackState
from tests.gates.erasure.history import History
from tests.store_kit import quick_directory
from tests.support.shelf import Shelf
from tests.support.shelf_fixtures import shelf, store

__all__ = ["shelf", "store"]

_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def run(examples: int, *, shrink: bool = True) -> int:
    """Histories that were run. Each has an account and a store of its own."""
    ran = 0
    with quick_directory() as directory:

        class Here(History):
            def directory(self) -> Path:
                nonlocal ran
                ran += 1
                return Path(directory)

        phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
        run_state_machine_as_test(
            Here,
            settings=run_settings(
                max_examples=examples,
                stateful_step_count=14,
                deadline=None,
                suppress_health_check=_CHECKS,
                phases=phases,
                database=None,
                report_multiple_bugs=False,
            ),
        )
    return ran


@pytest.mark.gate("store", "after any history of saves, forks, erasures, scrubs and damage, live content reads and dead content is gone")
@pytest.mark.timeout(900)
def test_any_history(shelf: Shelf, evidence: dict[str, object]) -> None:
    evidence["histories"] = run(40)


@pytest.mark.parametrize("sabotage", ["shared packs stay whole", "damage marks nobody"])
@pytest.mark.timeout(900)
def test_the_gate_notices(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, sabotage: str) -> None:
    if sabotage == "shared packs stay whole":
        monkeypatch.setattr(pack, "_decide", deciding_by_edges_alone(pack._decide))
    else:
        monkeypatch.setattr(integrity, "mark", lambda *arguments, **options: False)
    with pytest.raises(AssertionError):
        run(200, shrink=False)


def test_the_gate_notices_a_save_that_is_offered_what_is_known_to_be_bad(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One history that shows it: any of some hundred at random need not."""
    damaged_scrubbed_and_saved_again(tmp_path)
    monkeypatch.setattr(dedup, "_good_ids", lambda table, row: table.ids_by_number)
    monkeypatch.setattr(dedup, "_OFFERED", tuple(PackState))
    with pytest.raises(AssertionError, match="known to be bad"):
        damaged_scrubbed_and_saved_again(tmp_path)


def damaged_scrubbed_and_saved_again(directory: Path) -> None:
    class Here(History):
        def directory(self) -> Path:
            return directory

    history = Here()
    session = history.begin()
    saved = history.save(session, {place: place % 30 for place in range(40)})
    history.damage(0, 0)
    history.scrub()
    history.the_same_again(saved)
    history.teardown()


def deciding_by_edges_alone(decide):
    def decided(pack_id: str, *, heal: bool):
        found = decide(pack_id, heal=heal)
        if found is not None and found.action == "rewrite" and not heal:
            Pack.objects.filter(id=pack_id).update(state="live")
            return None
        return found

    return decided
