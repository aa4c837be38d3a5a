"""The terminal of a real machine through the real web server."""

import asyncio
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from websockets.exceptions import InvalidStatus

from keepstate_site.console import bridge, websocket
from sessions_app.models import IdlePolicy, Session, SessionEvent
from sessions_app.services import token as tokens
from tests.integration.inside.conftest import SESSION
from tests.integration.inside.terminal_client import Console, Raw
from tests.machine_kit import GUEST_SECONDS, assemble
from tests.support.fleet import Tenant, tenant
from tests.support.waiting import until

pytestmark = pytest.mark.vm
ATTACH = f"/api/sessions/{SESSION}/attach"
CONSOLE = f"/api/v2/sessions/{SESSION}/console"


@pytest.fixture
def visits(address_of_site: str, session: Session) -> Iterator[list[Console | Raw]]:
    """Those that were opened; closed after the test, which ends when the history has it too."""
    opened: list[Console | Raw] = []
    yield opened
    for one in opened:
        one.leave()
    until(lambda: SessionEvent.objects.filter(type="console.closed").count() == len(opened), 20, "every visit is told as closed")


@pytest.fixture
def console(address_of_site: str, owner: Tenant, visits: list[Console | Raw]) -> Callable[..., Console]:
    def open_one(**options) -> Console:
        one = Console(address_of_site, SESSION, options.pop("token", owner.plain), **options)
        visits.append(one)
        return one

    return open_one


@pytest.fixture
def attach(address_of_site: str, owner: Tenant, visits: list[Console | Raw]) -> Callable[..., Raw]:
    def open_one(query: str = "", **options) -> Raw:
        one = Raw(address_of_site, ATTACH + query, owner.plain, **options)
        assert one.status == 101
        visits.append(one)
        return one

    return open_one


def say(console: Console, command: str) -> str:
    """What a command typed at the shell prints. The mark is computed by the shell, so that its echo is another text."""
    console.type(f"{command}; echo do$((0))ne\r".encode())
    return console.until(b"do0ne\r\n").decode(errors="replace")


def size(inside, path: str) -> int:
    return int(inside.sh(f"stat -c %s {path} 2>/dev/null || echo 0"))


def leave(console: Console, visits: int) -> None:
    """Return when so many visits have ended."""
    console.leave()
    until(lambda: SessionEvent.objects.filter(type="console.closed").count() == visits, 20, "the visit is told as closed")


def refused(open_one: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as error:
        open_one()
    body = error.value.response.body
    assert body is not None
    return error.value.response.status_code, re.findall(rb'"code": "(\w+)"', body)[0].decode()


# -- the shell


def test_a_shell_answers_in_the_workspace_and_knows_the_size(console):
    one = console(query="?cols=101&rows=31")
    assert "31 101" in say(one, "stty size")
    assert "/root\r\n" in say(one, "pwd")


def test_a_new_size_is_seen_by_the_machine(console, inside):
    one = console()
    say(one, "true")
    one.resize(77, 22)
    until(lambda: inside.sh("stty -F /dev/hvc0 size") == "22 77", 20, "the terminal has its new size")
    assert "22 77" in say(one, "stty size")


def test_who_connects_again_finds_the_same_shell(console):
    first = console()
    say(first, "cd /tmp; KEPT=kept-$$")
    first.leave()
    second = console()
    found = say(second, 'echo "in $(pwd) $KEPT of $$"')
    assert re.search(r"in /tmp kept-(\d+) of \1\r\n", found)


def test_control_characters_reach_the_program_in_front(console):
    one = console()
    say(one, "true")
    one.type(b"sh -c 'echo ru$((1))ns; exec sleep 1000'\r")
    one.until(b"ru1ns\r\n")  # before that, the shell itself would take what is typed
    one.type(b"\x03")
    one.until(b"# ")
    assert "status 130" in say(one, "echo status $?")


def test_every_byte_that_is_typed_arrives(console, inside):
    one = console()
    one.type(b"stty raw -echo; echo re$((1))ady; head -c 3000 >/tmp/typed; stty sane\r")
    one.until(b"re1ady")
    data = bytes(range(256)) * 12
    one.type(data[:3000])
    until(lambda: size(inside, "/tmp/typed") == 3000, 20, "all of it arrived")
    assert bytes.fromhex(inside.sh("od -An -v -tx1 /tmp/typed").replace(" ", "").replace("\n", "")) == data[:3000]
    say(one, "true")


def test_the_end_of_the_shell_ends_the_visit_and_the_next_visit_has_a_new_one(console):
    one = console()
    say(one, "MARK=old")
    one.type(b"exit\r")
    assert one.until_closed() == (1000, "shell_ended")
    assert "mark is ." in say(console(), 'echo "mark is $MARK."')


# -- several at one terminal


def test_the_newest_types_the_others_look_on(console):
    first = console()
    first.until_told({"writer": True})
    second = console()
    second.until_told({"writer": True})
    first.until_told({"writer": False})
    second.type(b"echo from-se$((2))cond\r")
    assert b"from-se2cond" in first.until(b"from-se2cond")
    second.leave()
    first.notices.clear()
    first.until_told({"writer": True})
    say(first, "true")


def test_who_only_looks_does_not_type(console, inside):
    inside.sh("rm -f /tmp/looked")
    writing, looking = console(), console(query="?view=1")
    looking.type(b"touch /tmp/looked\r")
    looking.until_told({"writer": False})
    say(writing, "true")
    assert inside.sh("ls /tmp/looked 2>/dev/null || echo none") == "none"


# -- floods and stalls


def test_a_flood_goes_by_whole_and_the_shell_answers_after_it(console):
    one = console()
    say(one, "true")
    one.type(b"head -c 300000 /dev/zero | tr '\\0' '\\132'; echo af$((1))ter\r")
    assert one.until(b"af1ter").count(b"Z") == 300_000
    assert {"output_lost": True} not in one.notices
    assert "still" in say(one, "echo still")


@pytest.mark.parametrize(("upgrade", "path"), [("ks-attach", ATTACH), ("websocket", CONSOLE)])
def test_who_does_not_read_is_sent_away_and_neither_the_guest_nor_the_others_wait(
    console, address_of_site, owner, visits, monkeypatch, upgrade, path
):
    monkeypatch.setattr(bridge, "SEND_SECONDS", 4.0)  # those who read have as long for a part of what is sent
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(websocket, "_places", asyncio.Semaphore(2))
    stuck = Raw(address_of_site, f"{path}?view=1", owner.plain, upgrade=upgrade, window=4096)
    visits.append(stuck)
    one = console()
    say(one, "true")
    one.type(b"head -c 600000 /dev/zero | tr '\\0' '\\132'; echo af$((2))ter\r")
    assert one.until(b"af2ter").count(b"Z") == 600_000
    closed = SessionEvent.objects.filter(type="console.closed")
    until(closed.exists, 30, "the one that does not read was sent away")
    assert closed.get().payload["why"] == "too_slow"
    until(lambda: not websocket._places.locked(), 20, "its place is free for another")
    assert "still" in say(one, "echo still")


def test_what_is_printed_while_nobody_is_connected_is_shown_to_the_next_and_what_had_no_room_is_told(console, inside):
    first = console()
    say(first, "true")
    leave(first, 1)
    inside.sh("echo mea$((1))nwhile >/dev/hvc0")
    second = console()
    second.until(b"mea1nwhile")
    say(second, "true")
    assert second.notices == [{"writer": True}]
    leave(second, 2)
    inside.sh("head -c 1200000 /dev/zero >/dev/hvc0")
    console().until_told({"output_lost": True})


def test_input_that_nothing_takes_is_dropped_and_told_to_the_byte_and_a_save_goes_by(console, inside, tmp_path):
    inside.sh("rm -f /tmp/go /tmp/came")
    one = console()
    waits = "while [ ! -e /tmp/go ]; do sleep 0.1; done; head -c $(cat /tmp/go) >/tmp/came"
    one.type(f"stty raw -echo; echo re$((1))ady; {waits}; stty sane\r".encode())
    one.until(b"re1ady")
    for _ in range(3):
        one.type(b"x" * 60_000)
    one.type(b"!")
    one.until_told({"input_dropped": 1})
    came = 180_001 - sum(notice.get("input_dropped", 0) for notice in one.notices)
    (tmp_path / "staging").mkdir()
    assert len(inside.machine.capture(tmp_path / "staging").page_numbers) > 0
    inside.sh(f"echo {came} >/tmp/going; mv /tmp/going /tmp/go")
    until(lambda: size(inside, "/tmp/came") == came, 20, "all that was not told as dropped arrived")
    assert "still" in say(one, "echo still")


# -- saves, resumes, ends


def test_a_console_lives_through_saves_while_its_owner_types(console, inside, tmp_path):
    one = console()
    say(one, "n=0")
    typed = 40
    typing = threading.Thread(target=lambda: [one.type(b"n=$((n+1))\r") for _ in range(typed)])
    typing.start()
    for number in range(3):
        (tmp_path / f"s{number}").mkdir()
        inside.machine.capture(tmp_path / f"s{number}")
    typing.join()
    assert f"n is {typed}." in say(one, 'echo "n is $n."')


def test_after_a_resume_the_console_is_closed_by_name_and_opens_again_on_the_same_shell(console, inside, tmp_path):
    one = console()
    say(one, "HERE=before-the-save")
    (tmp_path / "staging").mkdir()
    saved = assemble(inside.machine.capture(tmp_path / "staging"), inside.image, tmp_path / "saved")
    say(one, "HERE=after-the-save")
    inside.machine.kill()
    assert one.until_closed() == (4001, "machine_stopped")
    inside.runtime = inside.runtime.with_name(f"{inside.runtime.name}-r")
    resumed = inside.driver.resume(inside.runtime, inside.spec, inside.image, saved, timeout_seconds=GUEST_SECONDS)
    resumed.run()
    resumed.greet(GUEST_SECONDS)
    assert "here is before-the-save." in say(console(), 'echo "here is $HERE."')


# -- the published client's upgrade


def test_ks_attach_carries_bytes_both_ways_and_output_after_the_end_of_input(attach):
    raw = attach("?cols=91&rows=21&term=xterm")
    assert b"Upgrade: ks-attach" in raw.head
    raw.type(b"stty size; echo do$((0))ne; sleep 1; echo la$((1))ter\r")
    assert b"21 91" in raw.until(b"do0ne")
    raw.socket.shutdown(socket.SHUT_WR)
    raw.until(b"la1ter")


def test_ks_attach_ends_with_the_shell(attach):
    raw = attach()
    raw.type(b"exit\r")
    assert b"exit" in raw.rest()
    until(lambda: SessionEvent.objects.filter(type="console.closed").exists(), 20, "it is told as closed")
    assert SessionEvent.objects.get(type="console.closed").payload["why"] == "shell_ended"


def test_bytes_sent_with_the_request_for_the_upgrade_are_not_lost(attach):
    attach(more=b"echo ear$((1))ly\r").until(b"ear1ly")


@pytest.mark.parametrize(
    ("target", "token", "status", "code"),
    [
        (ATTACH, "ks_wrong", 401, b"ks_unauthenticated"),
        (f"/api/sessions/{'0' * 32}/attach", None, 404, b"ks_not_found"),
        ("/api/sessions", None, 404, b"ks_route_not_served"),
        (f"{ATTACH}?cols=0", None, 400, b"ks_invalid"),
    ],
)
def test_ks_attach_is_refused_as_json_before_the_upgrade(address_of_site, session, owner, target, token, status, code):
    with Raw(address_of_site, target, token or owner.plain) as raw:
        assert raw.status == status
        assert code in raw.rest()


def test_a_plain_request_is_told_which_upgrade_it_lacks(web):
    for path in (ATTACH, CONSOLE):
        answer = web.get(path)
        assert answer.status_code == 426
        assert "ks_upgrade_required" in answer.text


# -- who may


def test_a_console_is_refused_before_it_opens_to_whoever_may_not(console, address_of_site, session, owner):
    assert refused(lambda: console(token="ks_wrong")) == (401, "ks_unauthenticated")
    assert refused(lambda: console(token=tenant("other").plain)) == (404, "ks_not_found")
    assert refused(lambda: console(origin="https://elsewhere.example")) == (403, "ks_forbidden")
    assert refused(lambda: console(query="?cols=9999")) == (400, "ks_invalid")
    owner.token.scopes = []
    owner.token.save()
    assert refused(console) == (403, "ks_forbidden")
    owner.token.scopes = ["sessions:read"]  # who may only read may look on, and not type
    owner.token.save()
    assert refused(console) == (403, "ks_forbidden")
    console(query="?view=1")


def test_a_session_that_does_not_run_is_a_typed_conflict(console, session):
    Session.objects.filter(id=session.id).update(runtime_state="parked")
    assert refused(console) == (409, "ks_session_not_running")


def test_a_browser_sends_its_token_as_a_subprotocol_which_is_not_sent_back(console, address_of_site, owner):
    one = console(token=None, subprotocols=["keepstate.console", f"bearer.{owner.plain}"], origin=f"http://{address_of_site}")
    assert one.socket.subprotocol == "keepstate.console"
    say(one, "true")


def test_a_token_that_is_revoked_ends_its_consoles(console, owner, monkeypatch):
    monkeypatch.setattr(bridge, "TELL_EVERY_SECONDS", 0.2)
    one = console()
    say(one, "true")
    tokens.revoke(owner.token)
    assert one.until_closed() == (4010, "token_revoked")


def test_a_console_at_which_nothing_happens_is_closed(console, settings, monkeypatch):
    monkeypatch.setattr(bridge, "TELL_EVERY_SECONDS", 0.2)
    settings.KEEPSTATE_CONSOLE_IDLE_MINUTES = 0
    assert console().until_closed() == (4009, "idle")


def test_a_message_that_is_none_of_ours_ends_the_console(console):
    one = console()
    one.socket.send("resize please")
    assert one.until_closed() == (1003, "malformed")


def test_an_open_console_is_use_of_its_session(console, session, monkeypatch):
    monkeypatch.setattr(bridge, "TELL_EVERY_SECONDS", 0.1)
    began = IdlePolicy.objects.create(session=session, enabled=True)
    began.refresh_from_db()
    console()
    for _ in range(2):  # the first may be told by its opening, the second is told while it is open
        IdlePolicy.objects.update(active_at=began.active_at - timedelta(hours=1))
        until(lambda: IdlePolicy.objects.get().active_at >= began.active_at, 20, "it is told as use")


def test_the_history_tells_who_opened_a_console_and_how_it_ended(console, session, owner):
    one = console()
    say(one, "true")
    leave(one, 1)
    opened, closed = (SessionEvent.objects.get(session=session, type=f"console.{word}") for word in ("opened", "closed"))
    assert opened.source == closed.source == f"api/{owner.token.prefix}"
    assert opened.payload["console_id"] == closed.payload["console_id"]
    assert (closed.payload["why"], closed.payload["bytes_typed"] > 0) == ("client_left", True)


# -- last: the machine of this module is gone after it


def test_the_machines_end_closes_the_console_by_name(console, inside):
    one = console()
    say(one, "true")
    os.kill(inside.machine.inspect().pid, signal.SIGKILL)
    assert one.until_closed() == (4001, "machine_stopped")
    assert refused(console) == (409, "ks_machine_lost")
