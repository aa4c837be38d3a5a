"""An image that is there in part gives verified bytes or none, decodes each frame once, and puts who waits before who does not."""

import os
import threading

import numpy as np
import pytest

from checkpoints_app.store import IntegrityError, LocalBackend, UnavailableError
from checkpoints_app.store.ids import UNIT_BYTES
from checkpoints_app.store.restore import PackReader
from tests.store_kit import content, save
from tests.support.lazy_store import flip_frame, plan_of
from tests.support.threads import at_once
from workers.lazy import image as lazy
from workers.lazy.groups import grouped
from workers.lazy.image import Failed, LazyImage
from workers.lazy.loader import Loader
from workers.lazy.stream import stream


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def memory():
    """Two packs; some units are zero, some alike."""
    made = content(6000)
    made[100:300] = 0
    made[4000:4050] = made[3]
    return made


class Made:
    def __init__(self, backend, plan, path, failed=lambda _: None):
        self.plan, self.groups = plan, grouped(plan.packs, plan.locations, plan.indexes)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self.fd, plan.length_bytes)
        self.loader = Loader(plan, backend, self.fd)
        self.image = LazyImage(self.groups, self.loader, self.fd, failed)


@pytest.fixture
def made(backend, memory, tmp_path):
    return Made(backend, plan_of(backend, save(backend, None, memory).manifest), tmp_path / "target")


def test_every_read_gives_what_was_saved_in_whatever_order_it_comes(made, memory):
    everything = memory.tobytes()
    whole = len(everything)
    for offset, length in ((5 * UNIT_BYTES + 17, 3), (150 * UNIT_BYTES, 9000), (5999 * UNIT_BYTES, 99999), (0, 1 << 20), (whole, 5)):
        assert made.image.read(offset, length) == everything[offset : offset + length]


def test_a_stream_brings_all_and_then_forgets_what_it_knew(made, memory):
    stream(made.image, made.groups, made.loader, np.array([5000, 7, 99999999]))
    assert made.image.missing() == 0
    made.image.let_go()
    assert made.image.read(0, len(memory) * UNIT_BYTES) == memory.tobytes()


def test_what_is_to_be_had_first_is_had_first(made, monkeypatch):
    order, plain = list[int](), LazyImage.bring

    def ordered(self, groups):
        order.extend(groups.tolist())
        plain(self, groups)

    monkeypatch.setattr(LazyImage, "bring", ordered)
    stream(made.image, made.groups, made.loader, np.array([5900, 5901]))
    assert order[0] == int(made.groups.of_unit[5900])
    assert set(order) == set(range(len(made.groups)))


def test_no_frame_is_decoded_twice_however_many_ask_for_it(made, memory, monkeypatch):
    seen, lock, plain = [], threading.Lock(), PackReader.run

    def counted(self, sources, targets, *rest):
        with lock:
            seen.extend(targets.tolist())
        return plain(self, sources, targets, *rest)

    monkeypatch.setattr(PackReader, "run", counted)
    at_once(4, lambda _: made.image.read(0, len(memory) * UNIT_BYTES))
    assert len(seen) == len(set(seen)) == int(memory.any(axis=1).sum())


def test_a_bad_frame_gives_no_byte_of_it_and_is_told_once(backend, memory, tmp_path):
    told = list[Exception]()
    made = Made(backend, plan_of(backend, save(backend, None, memory).manifest), tmp_path / "target", told.append)
    flip_frame(backend, made.plan, 2000)
    assert made.image.read(0, UNIT_BYTES) == memory[0].tobytes()
    for _ in range(2):
        with pytest.raises(Failed) as failed:
            made.image.read(2000 * UNIT_BYTES, UNIT_BYTES)
    assert isinstance(failed.value.cause, IntegrityError)
    assert len(told) == 1
    assert made.image.read(0, UNIT_BYTES) == memory[0].tobytes(), "what was verified before is still given"
    assert os.pread(made.fd, UNIT_BYTES, 2000 * UNIT_BYTES) == bytes(UNIT_BYTES), "nothing of it was written either"


def test_a_frame_that_fails_takes_no_reader_of_it_into_an_endless_wait(backend, memory, tmp_path):
    made = Made(backend, plan_of(backend, save(backend, None, memory).manifest), tmp_path / "target")
    flip_frame(backend, made.plan, 2000)

    def refused(_):
        with pytest.raises(Failed):
            made.image.read(2000 * UNIT_BYTES, UNIT_BYTES)

    at_once(4, refused)


def test_a_store_that_does_not_answer_for_a_while_is_waited_for(made, memory, monkeypatch):
    answers, plain = [UnavailableError("away"), UnavailableError("away")], LocalBackend.read

    def sometimes(self, *where):
        if answers:
            raise answers.pop()
        return plain(self, *where)

    monkeypatch.setattr(LocalBackend, "read", sometimes)
    monkeypatch.setattr(lazy, "RETRY_SECONDS", 0.0)
    assert made.image.read(0, UNIT_BYTES) == memory[0].tobytes()


def test_a_store_that_stays_away_is_given_up(made, monkeypatch):
    def never(self, *where):
        raise UnavailableError("away")

    monkeypatch.setattr(LocalBackend, "read", never)
    monkeypatch.setattr(lazy, "PATIENCE_SECONDS", -1.0)
    with pytest.raises(Failed):
        made.image.read(0, UNIT_BYTES)


def test_the_stream_waits_while_somebody_waits_for_a_read(made, memory, monkeypatch):
    """A read is held up in the store; meanwhile the stream brings nothing."""
    held, go_on, plain = threading.Event(), threading.Event(), PackReader.run
    brought = []

    def run(self, sources, targets, *rest):
        if threading.current_thread().name == "reader":
            held.set()
            assert go_on.wait(30)
        else:
            brought.append(go_on.is_set())
        return plain(self, sources, targets, *rest)

    monkeypatch.setattr(PackReader, "run", run)
    reader = threading.Thread(target=lambda: made.image.read(0, UNIT_BYTES), name="reader")
    reader.start()
    assert held.wait(30)
    asked, plainly = threading.Event(), LazyImage.let_urgent_pass

    def announced(self):
        asked.set()
        plainly(self)

    monkeypatch.setattr(LazyImage, "let_urgent_pass", announced)
    streaming = threading.Thread(target=lambda: stream(made.image, made.groups, made.loader, np.empty(0, np.int64)))
    streaming.start()
    assert asked.wait(30)
    go_on.set()
    streaming.join(30)
    reader.join(30)
    assert made.image.missing() == 0
    assert all(brought)
