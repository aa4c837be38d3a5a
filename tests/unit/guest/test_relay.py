"""The relay's own rules, without a guest and without a gateway."""

import json
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from workers.guest.layout import RELAY_COMMAND
from workers.guest.recipe import DEBIAN_PYTHON, GUEST_FILES, TINY, files_of
from workers.guest.relay import answer, call
from workers.guest.relay.answer import Answer, Other
from workers.guest.relay.asked import Asked, Closed, Held, Program
from workers.guest.relay.call import Call, Cut, Way

PING = "event: ping\n\n"


class Sides:
    """A program's connection: `far` is the program's end of it."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        self.program = Program(near, Held())
        self.asked = Asked(b"POST", b"/v1/messages", [], bytearray(b"{}"), modern=False, keeps=False)
        self.answer = Answer(self.program, self.asked)

    def begin(self) -> None:
        self.answer.begin(200, [("content-type", "text/event-stream")], "call_1", "upstream", PING)
        self.said()

    def said(self) -> bytes:
        """What the program has to read by now."""
        self.far.setblocking(False)
        try:
            return self.far.recv(65536)
        except BlockingIOError:
            return b""


@pytest.fixture
def sides() -> Iterator[Sides]:
    both = Sides()
    yield both
    both.far.close()
    both.program.sock.close()


@pytest.mark.parametrize(("given", "pinged"), [(b"", True), (b"data: 1\n\n", True), (b"data: 1\r\n\r\n", True), (b"data: 1\n", False)])
def test_a_keep_alive_breaks_no_event(sides: Sides, given: bytes, pinged: bool) -> None:
    sides.begin()
    for byte in given:
        sides.answer.give(bytes([byte]))
    sides.said()
    sides.answer.ping()
    assert sides.said() == (PING.encode() if pinged else b"")
    assert sides.answer.delivered == len(given)


def test_a_program_that_was_saved_meanwhile_hears_at_once_that_somebody_is_there(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    sides.begin()
    sides.answer.waited(0.1)
    assert sides.said() == b""
    clock = answer._difference()
    monkeypatch.setattr(answer, "_difference", lambda: clock + 3600)
    sides.answer.waited(0.1)
    assert sides.said() == PING.encode()
    sides.answer.waited(0.1)
    assert sides.said() == b""


def test_while_the_gateway_is_away_a_keep_alive_comes_every_ten_seconds_of_waiting(sides: Sides) -> None:
    sides.begin()
    for _ in range(25):
        sides.answer.waited(1.0)
    assert sides.said() == PING.encode() * 2


def test_an_answer_of_another_call_is_not_put_behind_the_one_that_was_begun(sides: Sides) -> None:
    sides.begin()
    sides.begin()
    with pytest.raises(Other):
        sides.answer.begin(200, [], "call_2", "upstream", PING)


def test_a_request_that_no_gateway_takes_is_refused_in_the_end_as_one_that_was_not_sent(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "UNSENT_SECONDS", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(Closed):
            Call(Way(nobody.getsockname()), sides.program, sides.asked).carry()
    said = sides.said()
    assert said.startswith(b"HTTP/1.1 503 ")
    assert "Nothing was sent" in json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_a_call_that_may_have_begun_is_broken_off_in_the_end_and_not_called_refused(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "BEGUN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as gateway:
        threading.Thread(target=_take_and_reset, args=(gateway,), daemon=True).start()
        with pytest.raises(Cut):
            Call(Way(gateway.getsockname()), sides.program, sides.asked).carry()
    assert sides.said() == b""


def _take_and_reset(gateway: socket.socket) -> None:
    while True:
        try:
            taken, _ = gateway.accept()
        except OSError:
            return
        with taken:
            while (piece := taken.recv(65536)) and b"{}" not in piece:
                pass
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_the_images_first_process_starts_what_the_tests_beside_the_guest_start() -> None:
    assert f"python3 {' '.join(RELAY_COMMAND[:-1])} '{RELAY_COMMAND[-1]}'" in (GUEST_FILES / "init").read_text()


def test_only_an_image_with_a_disk_has_the_relay() -> None:
    assert not any(name.startswith("relay/") for name in files_of(TINY))
    assert {"relay/service.py", "relay/__init__.py"} <= set(files_of(DEBIAN_PYTHON))
