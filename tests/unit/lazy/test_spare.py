"""A process that has loaded everything and waits for its role."""

import os
import threading
from pathlib import Path

import pytest

from tests.support.waiting import until, until_gone
from workers.lazy import start as starting
from workers.lazy.spare import Keeper, Spare


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    keeper = Keeper(starting._make_spare)
    monkeypatch.setattr(starting, "spares", keeper)
    monkeypatch.setattr("workers.lazy.spare.AGAIN_SECONDS", 600)
    keeper.keep()
    return keeper


def spare_of(keeper: Keeper) -> Spare:
    assert keeper._spare is not None
    return keeper._spare


def test_the_spare_takes_the_role_and_is_the_process_that_is_given_its_plan(kept: Keeper, tmp_path: Path) -> None:
    waiting = spare_of(kept).process.pid
    tokens, give = os.pipe()
    started = starting.start("assist", [str(tokens), str(tokens)], log=tmp_path / "log", pass_fds=(tokens,))
    os.close(give)
    os.close(tokens)
    assert started.process.pid == waiting
    started.control.sendall(b"n")  # anything but "go": it ends
    assert started.process.wait(30) == 0, (tmp_path / "log").read_text()
    started.close()


def test_what_it_says_goes_to_the_log_of_its_role(kept: Keeper, tmp_path: Path) -> None:
    started = starting.start("assist", ["no number", "0"], log=tmp_path / "log")
    assert started.process.wait(30) != 0
    assert "no number" in (tmp_path / "log").read_text()
    started.close()


def test_a_spare_that_died_is_not_used(kept: Keeper, tmp_path: Path) -> None:
    dead = spare_of(kept).process
    dead.kill()
    dead.wait()
    started = starting.start("assist", ["0", "0"], log=tmp_path / "log")
    assert started.process.pid != dead.pid
    started.close()
    started.process.wait(30)


def test_it_ends_with_whoever_keeps_it() -> None:
    spare = starting._make_spare(())
    spare.control.close()
    until_gone(spare.process.pid, 30)


def test_the_next_one_is_started_a_while_after_one_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.lazy.spare.AGAIN_SECONDS", 0)
    keeper = Keeper(starting._make_spare)
    keeper.keep(("json",))
    first = keeper.take()
    assert first is not None
    until(lambda: keeper._spare is not None, 30, "the next one is started")
    assert spare_of(keeper).process.pid != first.process.pid


def test_a_child_of_the_process_that_keeps_it_has_none(kept: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert kept.take() is None


def test_two_who_need_one_at_once_do_not_get_the_same(kept: Keeper) -> None:
    found = list[object]()
    threads = [threading.Thread(target=lambda: found.append(kept.take())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(None) == 1
