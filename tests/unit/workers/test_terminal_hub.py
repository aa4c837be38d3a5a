"""Those at one terminal: who types, who sees what, who is sent away. The machine is a line that the test holds."""

import json
import queue
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.waiting import until
from workers.machine.driver import MachineError
from workers.machine.script import ScriptResult
from workers.terminal import visitor as visitors
from workers.terminal.hub import VISITORS, Full, Hub
from workers.terminal.shell import end_mark
from workers.terminal.visitor import Visitor
from workers.wire import frames

SECONDS = 10


class TestLine:
    __test__ = False

    def __init__(self) -> None:
        self.prints: queue.Queue[bytes] = queue.Queue()
        self.typed: list[bytes] = []
        self.takes = True
        self.overflowed = False

    def lost(self) -> bool:
        return self.overflowed

    def read(self) -> bytes:
        return self.prints.get()

    def type(self, data: bytes) -> int:
        if not self.takes:
            return len(data)
        self.typed.append(data)
        return 0

    def close(self) -> None:
        self.prints.put(b"")


class Machine:
    runtime = Path("/nowhere")

    def __init__(self) -> None:
        self.line, self.scripts, self.code = TestLine(), list[Sequence[str]](), 0
        self.slow = threading.Event()
        self.slow.set()

    def terminal(self) -> TestLine:
        return self.line

    def script(
        self, script: str, arguments: Sequence[str], *, data: bytes = b"", timeout_seconds: float, output_limit: int
    ) -> ScriptResult:
        self.scripts.append(arguments)
        self.slow.wait(SECONDS)
        return ScriptResult(self.code, b"", "no terminal")


class Client:
    def __init__(self, hub: Hub, may_write: bool = True):
        self.sock, other = socket.socketpair()
        self.sock.settimeout(SECONDS)
        self.visitor = Visitor(other, may_write)
        self.hub = hub

    def join(self) -> "Client":
        self.hub.join(self.visitor)
        return self

    def next(self) -> tuple[bytes, object]:
        kind, data = frames.receive_frame(self.sock)
        return kind, data if kind == frames.OUTPUT else json.loads(data)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def hub(machine: Machine) -> Iterator[Hub]:
    opened = Hub(machine, 80, 24)
    yield opened
    opened.close(visitors.CLOSED)


def test_everyone_sees_what_is_printed_and_who_comes_later_what_was_printed_last(hub, machine):
    first = Client(hub).join()
    assert first.next() == (frames.NOTICE, {"writer": True})
    machine.line.prints.put(b"hello")
    assert first.next() == (frames.OUTPUT, b"hello")
    second = Client(hub, may_write=False).join()
    assert second.next() == (frames.OUTPUT, b"hello")
    machine.line.prints.put(b" again")
    assert first.next() == second.next() == (frames.OUTPUT, b" again")


def test_the_newest_who_wants_to_type_does_and_when_it_leaves_the_one_before(hub, machine):
    first, second = Client(hub).join(), Client(hub).join()
    assert [first.next(), first.next()] == [(frames.NOTICE, {"writer": True}), (frames.NOTICE, {"writer": False})]
    hub.type(first.visitor, b"not mine")
    hub.type(second.visitor, b"mine")
    assert machine.line.typed == [b"mine"]
    assert first.next() == (frames.NOTICE, {"writer": False})
    hub.leave(second.visitor)
    assert first.next() == (frames.NOTICE, {"writer": True})
    hub.type(first.visitor, b"now")
    assert machine.line.typed == [b"mine", b"now"]


def test_who_only_looks_never_types(hub, machine):
    looking = Client(hub, may_write=False).join()
    hub.type(looking.visitor, b"rm")
    assert (machine.line.typed, looking.next()) == ([], (frames.NOTICE, {"writer": False}))


def test_input_that_the_guest_does_not_take_is_dropped_and_told(hub, machine):
    client = Client(hub).join()
    client.next()
    machine.line.takes = False
    hub.type(client.visitor, b"lost")
    assert client.next() == (frames.NOTICE, {"input_dropped": 4})


def test_output_that_was_lost_is_told_after_what_was_printed_before_also_to_who_comes_later(hub, machine):
    machine.line.overflowed = True
    machine.line.prints.put(b"to nobody")
    until(lambda: machine.line.prints.empty() and hub._scrollback, SECONDS, "it was read")
    client = Client(hub, may_write=False).join()
    assert [client.next(), client.next()] == [(frames.OUTPUT, b"to nobody"), (frames.NOTICE, {"output_lost": True})]
    machine.line.prints.put(b"more")
    assert [client.next(), client.next()] == [(frames.OUTPUT, b"more"), (frames.NOTICE, {"output_lost": True})]
    machine.line.overflowed = False
    machine.line.prints.put(b"all")
    assert client.next() == (frames.OUTPUT, b"all")
    assert Client(hub, may_write=False).join().next() == (frames.OUTPUT, b"to nobodymoreall")


def test_who_does_not_read_is_sent_away_and_the_others_go_on(hub, machine, monkeypatch):
    monkeypatch.setattr(visitors, "QUEUE_BYTES", 100_000)
    stuck, reading = Client(hub).join(), Client(hub, may_write=False).join()
    got = 0
    for _ in range(40):
        machine.line.prints.put(b"x" * 30_000)
        while got < 30_000:
            got += len(reading.next()[1])  # type: ignore[arg-type]
        got -= 30_000
    came = [stuck.next()]
    while came[-1][0] != frames.END:
        came.append(stuck.next())
    assert came[-1] == (frames.END, {"why": "too_slow"})
    machine.line.prints.put(b"on")
    assert reading.next() == (frames.OUTPUT, b"on")


def test_the_end_of_the_machine_ends_every_visit_by_name(hub, machine):
    client = Client(hub, may_write=False).join()
    machine.line.prints.put(b"")
    assert client.next() == (frames.END, {"why": "machine_stopped"})
    until(lambda: hub.closed, SECONDS, "the hub is closed")


@pytest.mark.parametrize("cut", [0, 3, 20])
def test_the_end_of_the_shell_ends_every_visit_wherever_its_mark_is_cut(hub, machine, cut):
    client = Client(hub, may_write=False).join()
    nonce = machine.scripts[0][2]
    mark = end_mark(nonce)
    for part in (b"bye" + mark[:cut], mark[cut:]):
        if part:
            machine.line.prints.put(part)
    came = [client.next()]
    while came[-1][0] != frames.END:
        came.append(client.next())
    assert came[-1] == (frames.END, {"why": "shell_ended"})


def test_a_mark_with_another_nonce_ends_nothing(hub, machine):
    client = Client(hub, may_write=False).join()
    machine.line.prints.put(end_mark("0" * 32))
    client.next()
    machine.line.prints.put(b"still here")
    assert client.next() == (frames.OUTPUT, b"still here")


def test_of_many_sizes_in_a_row_the_last_one_counts(hub, machine):
    client = Client(hub).join()
    machine.slow.clear()
    for columns in range(50, 90):
        hub.resize(client.visitor, columns, 20)
    machine.slow.set()
    until(lambda: machine.scripts[-1][:2] == ["89", "20"], SECONDS, "the last size was set")
    assert len(machine.scripts) <= 4


def test_a_terminal_takes_so_many_and_no_more(hub):
    everyone = [Client(hub, may_write=False).join() for _ in range(VISITORS)]
    with pytest.raises(Full):
        Client(hub).join()
    assert len(everyone) == VISITORS


def test_a_guest_without_a_terminal_is_said_and_nothing_stays_open(machine):
    machine.code = 20
    with pytest.raises(MachineError) as refused:
        Hub(machine, 80, 24)
    assert refused.value.code == "exec_failed"
    assert machine.line.prints.get(timeout=SECONDS) == b""
