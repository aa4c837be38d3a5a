"""The client of the guest's agent against agents that lie, flood, stall and talk nonsense. A thread plays the agent on a real socket."""

import base64
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.waiting import until
from workers.machine.driver import MachineError
from workers.machine.process import alive
from workers.machine.qemu import guest_channel, guest_hold
from workers.machine.qemu.argv import GUEST_SOCKET
from workers.machine.qemu.guest import converse
from workers.machine.qemu.guest_channel import GuestRefused
from workers.machine.qemu.guest_clock import set_guest_clock
from workers.machine.qemu.guest_exec import execute

LONG = 60.0  # seconds that no test waits for
SHORT = 0.5


class Agent:
    """Serves one connection after the other. `answer(request)` returns the bytes to send, or None to say nothing."""

    def __init__(self, runtime, answer):
        self.requests, self.connections, self._answer = [], 0, answer
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(runtime / GUEST_SOCKET))
        self._server.listen(8)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rb") as lines:
                try:
                    for line in lines:
                        request = json.loads(line.lstrip(b"\xff"))
                        self.requests.append(request["execute"])
                        data = self._answer(request)
                        for piece in (data,) if isinstance(data, bytes) else data or ():
                            connection.sendall(piece)
                except OSError:
                    pass  # the client has gone


def returned(value):
    return json.dumps({"return": value}).encode() + b"\n"


def honest(request):
    """Synchronises; says `{}` to everything else."""
    if request["execute"] == "guest-sync-delimited":
        return b"\xff" + returned(request["arguments"]["id"])
    return returned({})


def taken(directory):
    fd = alive.acquire(directory)
    assert fd is not None
    return fd


@pytest.fixture
def runtime(tmp_path):
    fd = taken(tmp_path)  # the machine's process, as far as the client can see
    yield tmp_path
    os.close(fd)


@pytest.fixture
def agent(runtime):
    agents = []

    def start(answer):
        agents.append(Agent(runtime, answer))
        return agents[-1]

    yield start
    for one in agents:
        one.close()


def ask(runtime, seconds=LONG, command="guest-ping", limit=1000):
    deadline = time.monotonic() + seconds
    return converse(runtime, deadline, lambda connection: connection.request(command, {}, deadline, limit))


def code_of(call):
    with pytest.raises(MachineError) as failure:
        call()
    return failure.value.code


def run(runtime, timeout_seconds=LONG, limit=1000):
    return execute(runtime, ["true"], timeout_seconds, limit, lambda: None)


# -- synchronising


def test_an_honest_agent_is_understood(runtime, agent):
    agent(honest)
    assert ask(runtime) == {}


def test_bytes_of_before_the_synchronisation_are_passed_over(runtime, agent):
    def late(request):
        if request["execute"] == "guest-sync-delimited":
            return b'{"return": {"stale": true}}\n{"half": \xff' + returned(1) + b"\xff" + returned(request["arguments"]["id"])
        return returned({"fresh": True})

    agent(late)
    assert ask(runtime) == {"fresh": True}


def test_an_answer_that_comes_in_single_bytes_is_put_together(runtime, agent):
    agent(lambda request: (bytes([byte]) for byte in honest(request)))
    assert ask(runtime) == {}


def test_a_lost_request_is_asked_again_on_a_new_connection(runtime, agent):
    def deaf_at_first(request):
        return None if playing.connections == 1 else honest(request)

    playing = agent(deaf_at_first)
    assert ask(runtime) == {}
    assert playing.connections > 1


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"\xff",
        b"\xff\n",
        b"\xffnull\n",
        b'\xff{"return": 1}\n',
        b"\xff" + b"[" * 50_000 + b"\n",
        b"\xff" + b"9" * 50_000 + b"\n",
        b"\xff{}\xff{}\n",
    ],
)
def test_an_agent_that_does_not_synchronise_is_silent(runtime, agent, nonsense):
    agent(lambda request: nonsense)
    assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"


def test_an_agent_that_floods_is_silent_and_is_not_read_for_ever(runtime, agent, monkeypatch):
    monkeypatch.setattr(guest_channel, "STALE_LIMIT", 1 << 20)
    agent(lambda request: (b"x" * 65536 for _ in range(10**9)))
    assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"


def test_an_agent_that_drips_for_ever_is_silent_when_the_time_is_over(runtime, agent):
    def drip(request):
        while True:
            yield b"x"
            threading.Event().wait(0.01)

    agent(drip)
    assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"


def test_a_guest_without_a_process_is_dead_and_not_silent(tmp_path):
    os.close(taken(tmp_path))
    assert code_of(lambda: ask(tmp_path, LONG)) == "machine_dead"


def test_a_directory_that_is_gone_is_a_dead_machine(tmp_path):
    assert code_of(lambda: ask(tmp_path / "gone", LONG)) == "machine_dead"


# -- answers


def answering(answer):
    return lambda request: honest(request) if request["execute"] == "guest-sync-delimited" else answer


@pytest.mark.parametrize("nonsense", [b"what\n", b"7\n", b"{}\n", b'{"error": "text"}\n', b'{"returns": 1}\n', b"\xfe\xfe\n"])
def test_an_answer_outside_the_protocol_is_no_answer(runtime, agent, nonsense):
    agent(answering(nonsense))
    assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"


def test_an_answer_longer_than_its_bound_is_no_answer(runtime, agent):
    agent(answering(returned("x" * 5000)))
    assert code_of(lambda: ask(runtime, SHORT, limit=1000)) == "guest_silent"


def test_an_answer_without_end_is_given_up_at_its_bound(runtime, agent):
    agent(lambda request: honest(request) if request["execute"] == "guest-sync-delimited" else (b"y" * 65536 for _ in range(10**9)))
    assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"


def test_a_refusal_carries_the_guests_words_cut_short(runtime, agent):
    agent(answering(json.dumps({"error": {"class": "GenericError", "desc": "no " * 200}}).encode() + b"\n"))
    with pytest.raises(GuestRefused) as refusal:
        ask(runtime)
    assert str(refusal.value).startswith("no no")
    assert len(str(refusal.value)) <= 300


def test_two_conversations_never_mix(runtime, agent):
    def tell(request):
        return honest(request) if request["execute"] == "guest-sync-delimited" else returned(request["execute"])

    agent(tell)
    commands = [f"command-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda command: ask(runtime, LONG, command), commands)) == commands


def test_a_busy_channel_is_waited_for_no_longer_than_the_deadline(runtime, agent):
    agent(honest)
    with guest_hold.open_channel(runtime, time.monotonic() + LONG):
        assert code_of(lambda: ask(runtime, SHORT)) == "guest_silent"
    assert ask(runtime) == {}


# -- commands


def executing(status, start=None):
    def answer(request):
        if request["execute"] == "guest-exec":
            return returned({"pid": 7} if start is None else start)
        if request["execute"] == "guest-exec-status":
            return returned(status)
        return honest(request)

    return answer


def test_a_command_is_started_once_and_polled_to_its_end(runtime, agent):
    statuses = iter([{"exited": False}, {"exited": False}, {"exited": True, "exitcode": 3, "out-data": base64.b64encode(b"out").decode()}])
    playing = agent(lambda request: returned(next(statuses)) if request["execute"] == "guest-exec-status" else executing(None)(request))
    result = run(runtime)
    assert (result.exit_code, result.stdout, result.stderr, result.timed_out) == (3, b"out", b"", False)
    assert playing.requests.count("guest-exec") == 1


def test_a_command_whose_start_is_not_answered_is_never_started_twice(runtime, agent, monkeypatch):
    monkeypatch.setattr(guest_channel, "ANSWER_SECONDS", SHORT)
    playing = agent(lambda request: None if request["execute"] == "guest-exec" else honest(request))
    with pytest.raises(MachineError) as failure:
        run(runtime)
    assert failure.value.code == "guest_silent"
    assert "may have run" in str(failure.value)
    until(lambda: "guest-exec" in playing.requests, LONG, "the agent has read the command")
    assert playing.requests.count("guest-exec") == 1


@pytest.mark.parametrize("start", [{}, {"pid": "7"}, {"pid": True}, {"pid": 2**70}, [], "7", None])
def test_a_start_that_names_no_process_fails_the_command(runtime, agent, start):
    agent(lambda request: returned(start) if request["execute"] == "guest-exec" else honest(request))
    assert code_of(lambda: run(runtime)) == "exec_failed"


@pytest.mark.parametrize(
    "status",
    [
        {},
        [],
        {"exited": "yes"},
        {"exited": 1},
        {"exited": True, "out-data": "not base64!"},
        {"exited": True, "out-data": 7},
        {"exited": True, "err-data": ["x"]},
        {"exited": True, "out-data": "ünï"},
    ],
)
def test_a_status_that_makes_no_sense_fails_the_command(runtime, agent, status):
    agent(executing(status))
    assert code_of(lambda: run(runtime)) == "exec_failed"


def test_more_output_than_allowed_is_cut_whatever_the_guest_says(runtime, agent):
    data = base64.b64encode(b"z" * 1500).decode()
    agent(executing({"exited": True, "exitcode": 0, "out-data": data, "out-truncated": False}))
    result = run(runtime, limit=1000)
    assert (len(result.stdout), result.truncated) == (1000, True)


@pytest.mark.parametrize("code", ["0", True, 2**40, None])
def test_an_exit_code_that_is_no_number_is_not_known(runtime, agent, code):
    agent(executing({"exited": True, "exitcode": code}))
    assert run(runtime).exit_code is None


def test_a_guest_that_refuses_to_start_a_command_says_why(runtime, agent):
    refusal = json.dumps({"error": {"desc": "Failed to execute child process"}}).encode() + b"\n"
    agent(lambda request: refusal if request["execute"] == "guest-exec" else honest(request))
    with pytest.raises(MachineError, match="Failed to execute child process") as failure:
        run(runtime)
    assert failure.value.code == "exec_failed"


def test_a_guest_that_ends_while_a_command_runs_is_told_as_such(runtime, agent):
    def dead():
        raise MachineError("machine_dead", "the guest shut down")

    agent(lambda request: None if request["execute"] == "guest-exec-status" else executing(None)(request))
    with pytest.raises(MachineError) as failure:
        execute(runtime, ["true"], LONG, 1000, dead)
    assert failure.value.code == "machine_dead"


# -- the clock


def set_clock(runtime):
    deadline = time.monotonic() + LONG
    converse(runtime, deadline, lambda connection: set_guest_clock(connection, deadline))


def clock(seen):
    def answer(request):
        if request["execute"] == "guest-set-time":
            return json.dumps({"error": {"desc": "hwclock failed"}}).encode() + b"\n"
        return returned(seen()) if request["execute"] == "guest-get-time" else honest(request)

    return answer


def test_a_clock_that_is_right_counts_as_set_whatever_hwclock_said(runtime, agent):
    agent(clock(time.time_ns))
    set_clock(runtime)


@pytest.mark.parametrize("seen", [lambda: 0, lambda: "now", lambda: None])
def test_a_clock_that_stays_wrong_is_a_failure(runtime, agent, seen):
    agent(clock(seen))
    assert code_of(lambda: set_clock(runtime)) == "exec_failed"
