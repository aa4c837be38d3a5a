"""The relay's socket: bounded, typed, for one question at a time."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from sessions_app.errors import FleetUnavailable
from sessions_app.models import Session
from tests.support.waiting import until
from workers.host import identity
from workers.machine.driver import MachineError
from workers.machine.script import ScriptResult
from workers.relay import address, client, server
from workers.wire import messages

SESSION = "a" * 32


class Machine:
    runtime = Path("/nowhere")
    answer: ScriptResult | MachineError = ScriptResult(0, b"directory 0\n", "")

    def script(self, *_: object, **__: object) -> ScriptResult:
        if isinstance(self.answer, MachineError):
            raise self.answer
        return self.answer

    def terminal(self) -> None:
        raise MachineError("machine_dead", "The machine is gone.")


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def relay(tmp_path: Path, machine: Machine) -> Iterator[Path]:
    serving = server.start(tmp_path, lambda session, epoch: machine if (session, epoch) == (SESSION, 1) else None)  # type: ignore[arg-type,return-value]
    until(lambda: (tmp_path / address.SOCKET_NAME).exists() and _listens(tmp_path), 10, "the relay listens")
    yield tmp_path
    serving.close()


def _listens(directory: Path) -> bool:
    try:
        address.reach(directory).close()
    except OSError:
        return False
    return True


def ask(relay: Path, header: dict, blob: bytes = b"") -> tuple[dict, bytes]:
    with address.reach(relay) as sock:
        sock.settimeout(10)
        messages.send(sock, header, blob)
        return messages.receive(sock)


def question(verb: str, **more: object) -> dict:
    return {"verb": verb, "session": SESSION, "epoch": 1, **more}


def test_a_question_is_answered(relay):
    header, blob = ask(relay, question("files.list", path="", limit=5))
    assert (header["ok"], json.loads(blob)["total"]) == (True, 0)


def test_the_socket_is_for_its_own_user_alone(relay):
    assert (relay / address.SOCKET_NAME).stat().st_mode & 0o777 == 0o600


def test_a_relay_whose_listener_is_gone_is_closed_without_a_complaint(tmp_path):
    serving = server.start(tmp_path, lambda session, epoch: None)
    until(lambda: _listens(tmp_path), 10, "the relay listens")
    serving.close()  # as when a last connection made the relay see the end by itself
    serving.close()
    assert not _listens(tmp_path)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (question("files.list", path="", limit=0), "malformed"),
        (question("files.list", path=3, limit=5), "malformed"),
        (question("files.read", path="f", offset=-1, count=5), "malformed"),
        (question("files.read", path="f", offset=0, count=1 << 30), "malformed"),
        (question("shell.run", path="f"), "malformed"),
        ({"verb": "files.list"}, "malformed"),
        ({**question("files.list"), "session": "../../x"}, "malformed"),
        ({**question("files.list"), "epoch": True}, "malformed"),
        ({**question("files.list", path="", limit=5), "epoch": 2}, "machine_dead"),
        (question("terminal", columns=80, rows=24), "machine_dead"),
    ],
)
def test_a_question_that_cannot_be_met_is_refused_by_name(relay, asked, code):
    header, _ = ask(relay, asked)
    assert (header["ok"], header["code"]) == (False, code)


def test_a_guest_that_is_silent_is_told_as_such(relay, machine):
    machine.answer = MachineError("guest_silent", "The guest did not answer in time.")
    assert ask(relay, question("files.list", path="", limit=5))[0]["code"] == "guest_silent"


def test_a_machine_without_files_says_so(tmp_path):
    serving = server.start(tmp_path, lambda session, epoch: object())  # type: ignore[arg-type,return-value]
    until(lambda: _listens(tmp_path), 10, "the relay listens")
    assert ask(tmp_path, question("files.list", path="", limit=5))[0]["code"] == "not_offered"
    serving.close()


@pytest.mark.parametrize("said", [b"\xff" * 8, messages.LENGTHS.pack(3, 0) + b"[1]", messages.LENGTHS.pack(4, 0) + b"nope"])
def test_what_is_not_the_protocol_ends_the_connection_and_not_the_relay(relay, said):
    with address.reach(relay) as sock:
        sock.settimeout(10)
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""
    assert ask(relay, question("files.list", path="", limit=5))[0]["ok"] is True


def test_more_connections_than_it_takes_are_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "QUESTION_SECONDS", 60)  # who asks nothing keeps its place for as long
    serving, held = server.start(tmp_path, lambda session, epoch: None), list[socket.socket]()
    until(lambda: _holds(tmp_path, held), 10, "the relay listens")
    held += [address.reach(tmp_path) for _ in range(server.CONNECTIONS - 1)]
    with address.reach(tmp_path) as late:
        late.settimeout(10)
        assert messages.receive(late)[0]["code"] == "busy"
    assert select.select(held, [], [], 0)[0] == [], "whoever has a place is told nothing"
    for sock in held:
        sock.close()
    serving.close()


def _holds(directory: Path, held: list[socket.socket]) -> bool:
    """Whether a connection could be made; it stays. A look that had left again might still have a place."""
    try:
        held.append(address.reach(directory))
    except OSError:
        return False
    return True


def test_a_second_relay_of_a_host_waits_until_the_first_has_gone(tmp_path, machine):
    first = server.start(tmp_path, lambda session, epoch: None)
    until(lambda: _listens(tmp_path), 10, "the first listens")
    second = server.Relay(tmp_path, lambda session, epoch: machine)
    waiting = threading.Thread(target=second.serve, daemon=True)
    waiting.start()
    assert ask(tmp_path, question("files.list", path="", limit=5))[0]["code"] == "machine_dead"
    first.close()
    until(lambda: _listens(tmp_path) and ask(tmp_path, question("files.list", path="", limit=5))[0]["ok"], 10, "the second serves")
    second.close()
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.django_db
def test_a_web_process_reaches_the_relay_of_any_host_below_its_root_and_no_other(
    tmp_path: Path, settings: Settings, machine: Machine
) -> None:
    settings.KEEPSTATE_VAR = tmp_path
    directory = identity.directory_of("h-2")
    directory.mkdir(parents=True)
    serving = server.start(directory, lambda session, epoch: machine)  # type: ignore[arg-type,return-value]
    until(lambda: _listens(directory), 10, "the relay listens")
    try:
        _, listing = client.ask(Session(id=SESSION, host_id="h-2", epoch=1), "files.list", {"path": ".", "limit": 10})
    finally:
        serving.close()
    assert json.loads(listing)["is_dir"]
    for elsewhere in ("h-3", ""):
        with pytest.raises(FleetUnavailable, match="another host"):
            client.open_link(Session(id=SESSION, host_id=elsewhere, epoch=1))
