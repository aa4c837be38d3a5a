"""Work whose caller goes on before its end."""

import threading

import pytest

from workers.machine.qemu.early import early


def test_the_caller_goes_on_when_the_work_says_so_and_waits_for_its_end_when_it_asks():
    may_end, ended = threading.Event(), threading.Event()

    def work(reached):
        reached()
        may_end.wait(10)
        ended.set()

    finish = early(work)
    assert not ended.is_set()
    may_end.set()
    finish()
    assert ended.is_set()


def test_work_that_fails_before_it_says_so_fails_at_once():
    def work(reached):
        raise ValueError("before")

    with pytest.raises(ValueError, match="before"):
        early(work)


def test_work_that_fails_later_fails_whoever_waits_for_it():
    def work(reached):
        reached()
        raise ValueError("later")

    finish = early(work)
    with pytest.raises(ValueError, match="later"):
        finish()


def test_work_that_never_says_so_is_waited_for():
    done = list[bool]()
    early(lambda reached: done.append(True))()
    assert done == [True]
