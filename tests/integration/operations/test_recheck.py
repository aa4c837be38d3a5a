"""Every so many saves the whole images are compared with what the delta says."""

import json
import logging
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from pytest_django.fixtures import Settings

from sessions_app.models import Session
from tests.integration.operations.world import World, error_of, forget_cache, guest, leftovers, machine_of, objects, runs, scribble
from workers.machine.fake import capture as fake_capture
from workers.machine.memory.pagemap import written_pages
from workers.save import recheck

LEFT_OUT = 2100  # a page of the 2 MiB that are written at 8 MiB


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The checkpoints that were compared whole."""
    found: list[str] = []
    right = recheck.require_equal

    def told(checkpoint_id: str, *rest: object) -> None:
        found.append(checkpoint_id)
        right(checkpoint_id, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(recheck, "require_equal", told)
    return found


def leave_out_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., npt.NDArray[np.int64]] = written_pages

    def wrong(*arguments: object) -> npt.NDArray[np.int64]:
        pages = right(*arguments)
        assert LEFT_OUT in pages
        return pages[pages != LEFT_OUT]

    monkeypatch.setattr(fake_capture, "written_pages", wrong)


def test_every_third_save_of_a_line_is_compared_whole_over_a_resume_too(
    world: World, session: Session, settings: Settings, checked: list[str]
) -> None:
    settings.KEEPSTATE_RECHECK_SAVES = 3
    made = []
    for number in range(8):
        scribble(session, 1, seed=number)
        made.append(world.save(session, stop=number == 4).id)
        if number == 4:
            world.resume(session)
    assert checked == [made[3], made[6]]  # the first rests on nothing; then each third


def test_zero_means_never(world: World, session: Session, settings: Settings, checked: list[str]) -> None:
    settings.KEEPSTATE_RECHECK_SAVES = 0
    for _ in range(3):
        world.save(session)
    assert checked == []


def test_a_written_page_that_the_capture_left_out_fails_the_save_and_the_next_one_stores_all_anew(
    world: World, session: Session, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.KEEPSTATE_RECHECK_SAVES = 1
    guest(session, "echo kept > note")
    scribble(session, 2, seed=1)
    previous, before = world.save(session), objects()
    scribble(session, 2, seed=2)
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        leave_out_a_page(patch)
        error = error_of(world.ask_save(session))
    assert (error["code"], error["reason"], error["previous_checkpoint_id"]) == ("ks_save_failed", recheck.CODE, previous.id)
    assert "memory" in str(error["message"])
    assert any("A SAVE WOULD HAVE BEEN WRONG" in line.message for line in caplog.records)
    assert runs(session)
    assert leftovers() == []
    assert objects() == before
    note = machine_of(session).runtime / "keepstate.json"
    assert json.loads(note.read_text())["anew"] is True
    session.refresh_from_db()
    world.save(session, stop=True)
    forget_cache()
    world.resume(session)
    assert guest(session, "cat note") == "kept"


def test_without_the_comparison_the_same_fault_is_published(
    world: World, session: Session, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the check is for: nothing else notices."""
    settings.KEEPSTATE_RECHECK_SAVES = 0
    scribble(session, 2, seed=1)
    world.save(session)
    scribble(session, 2, seed=2)
    leave_out_a_page(monkeypatch)
    assert world.save(session).state == "published"
