"""A host's relay across the network: found by the database, opened by the master key, and by nothing else."""

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from sessions_app.errors import FleetUnavailable, MachineLost
from sessions_app.models import Session
from tests.support.relays import listens, sent_away, silent
from tests.support.waiting import until
from workers.models import Host, HostRelay
from workers.relay import admission, client, proof, server, trust
from workers.relay.address import listen
from workers.relay.dial import dial
from workers.relay.door import Door
from workers.relay.strangers import source_of

SESSION = "a" * 32
MASTER = os.urandom(32)


class Machine:
    runtime = Path("/nowhere")

    def script(self, *_: object, **__: object) -> object:
        raise AssertionError("no guest is asked here")

    terminal = script


class _Told:
    port: int = 0
    fingerprint: str = ""

    def __call__(self, port: int, fingerprint: str) -> None:
        self.port, self.fingerprint = port, fingerprint

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the door there is room for four who have shown nothing, and they have all the time of a test."""
    monkeypatch.setattr(admission, "STRANGERS", 4)
    monkeypatch.setattr(admission, "PROOF_SECONDS", 600.0)


@pytest.fixture
def door(directory: Path) -> _Told:
    told = _Told()
    Door(directory, "127.0.0.1", 0, [MASTER], told).start()
    until(lambda: told.port, 10, "the door listens")
    return told


@pytest.fixture
def relay(directory: Path) -> Iterator[None]:
    serving = server.start(directory, lambda session, epoch: None)
    until(lambda: listens(directory), 10, "the relay listens")
    yield
    serving.close()


@pytest.fixture
def elsewhere(db: None, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session whose machine's host is not below this process's root."""
    settings.KEEPSTATE_VAR, settings.KEEPSTATE_MASTER_KEY = tmp_path_factory.mktemp("var"), MASTER
    Host.objects.create(id="h-far", memory_bytes=1, cpus=1, boot_id="boot")
    return Session(id=SESSION, epoch=1, host_id="h-far")


def _known(door: _Told) -> None:
    marks = [proof.mark(MASTER, door.fingerprint)]
    HostRelay.objects.create(host_id="h-far", address="127.0.0.1", port=door.port, fingerprint=door.fingerprint, key_marks=marks)


def test_a_question_reaches_the_relay_of_a_host_on_another_machine(door: _Told, relay: None, elsewhere: Session) -> None:
    _known(door)
    with pytest.raises(MachineLost):  # the relay's own answer, for it has no such machine
        client.ask(elsewhere, "files.list", {"path": "", "limit": 5})


def test_while_the_master_key_is_exchanged_the_one_before_opens_too(
    door: _Told, relay: None, elsewhere: Session, settings: Settings
) -> None:
    _known(door)
    settings.KEEPSTATE_MASTER_KEY, settings.KEEPSTATE_MASTER_KEY_PREVIOUS = os.urandom(32), MASTER
    with pytest.raises(MachineLost):
        client.ask(elsewhere, "files.list", {"path": "", "limit": 5})


def test_by_what_a_host_tells_of_its_door_a_web_process_knows_whether_it_has_the_same_key(
    elsewhere: Session, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "close", lambda: None)  # it is the door's own, in the product
    settings.KEEPSTATE_HOST_ID = "h-far"
    server.tell("127.0.0.1", 8791, "ab" * 32)
    assert trust.hosts_with_other_keys() == []
    settings.KEEPSTATE_MASTER_KEY = os.urandom(32)
    assert trust.hosts_with_other_keys() == ["h-far"]


def test_a_host_whose_relay_is_not_on_the_network_is_told_as_such(elsewhere: Session) -> None:
    with pytest.raises(FleetUnavailable, match="does not listen on the network"):
        client.open_link(elsewhere)


def test_a_host_that_does_not_answer_is_told_as_such(elsewhere: Session) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        told = _Told()
        told(free.getsockname()[1], "00" * 32)
        _known(told)
        with pytest.raises(FleetUnavailable, match="does not run"):
            client.open_link(elsewhere)


def test_another_certificate_than_the_one_in_the_database_is_told_nothing(door: _Told) -> None:
    with pytest.raises(ConnectionError, match="another process"):
        dial(door.address, "0" * 64, MASTER)


@pytest.mark.parametrize("shown", [os.urandom, lambda count: b"\0" * count], ids=["random", "zero"])
def test_whoever_does_not_know_the_master_key_reaches_nothing(door: _Told, directory: Path, shown) -> None:
    with listen(directory) as relay:
        relay.settimeout(0.2)
        with ssl_to(door) as sock:
            sock.sendall(shown(proof.PROOF_BYTES))
            assert sock.recv(1) == b"", "it is dropped without a word"
        with pytest.raises(TimeoutError):
            relay.accept()


def test_the_proof_for_one_certificate_opens_no_other(door: _Told) -> None:
    other = replace(Door(Path("/nowhere"), "127.0.0.1", 0, [MASTER], lambda *_: None), masters=[MASTER])
    shown = proof.proof(MASTER, "ab" * 32)
    assert not proof.is_proof(shown, other.masters, door.fingerprint)
    assert proof.is_proof(shown, [os.urandom(32), MASTER], "ab" * 32)


def test_the_network_speaks_nothing_older_than_tls_1_3(door: _Told) -> None:
    context = proof.web_side()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError), socket.create_connection(door.address, 5) as plain:
        context.wrap_socket(plain)


def test_both_ends_may_speak_at_once_and_every_byte_arrives(door: _Told, directory: Path) -> None:
    there, back = os.urandom(3 << 20), os.urandom(3 << 20)
    with listen(directory) as relay, dial(door.address, door.fingerprint, MASTER) as near:
        far, _ = relay.accept()
        with far:
            received = _exchange((near, there), (far, back))
    assert received == [back, there]


def test_an_end_that_closes_is_told_to_the_other_after_its_last_bytes(door: _Told, directory: Path) -> None:
    with listen(directory) as relay, dial(door.address, door.fingerprint, MASTER) as near:
        far, _ = relay.accept()
        far.sendall(json.dumps({"ok": True}).encode())
        far.close()
        near.settimeout(10)
        assert near.recv(100) == b'{"ok": true}'
        assert near.recv(100) == b""


def test_of_those_who_show_nothing_only_so_many_are_kept_and_they_keep_nobody_out(narrow: None, door: _Told, directory: Path) -> None:
    with listen(directory) as relay, silent(door.address, 6) as silent_ones, ssl_to(door), ssl_to(door):
        until(lambda: sent_away(silent_ones) == 4, 10, "the longest silent were sent away for the last four")
        with dial(door.address, door.fingerprint, MASTER):
            relay.accept()[0].close()


def test_a_flood_from_one_source_sends_nobody_of_another_away(narrow: None, door: _Told, directory: Path) -> None:
    with listen(directory) as relay, socket.create_connection(door.address, 5) as slow, silent(door.address, 12, "127.0.0.2") as flood:
        until(lambda: sent_away(flood) == 9, 10, "only three places are left to the flood")
        with proof.web_side().wrap_socket(slow) as late:
            late.sendall(proof.proof(MASTER, door.fingerprint))
            relay.accept()[0].close()


def test_all_addresses_of_one_ipv6_network_are_one_source() -> None:
    assert source_of("2001:db8::1") == source_of("2001:db8::2:3") != source_of("2001:db8:0:1::1")
    assert source_of("192.0.2.1") != source_of("192.0.2.2")


def ssl_to(door: _Told) -> ssl.SSLSocket:
    return proof.web_side().wrap_socket(socket.create_connection(door.address, 5))


def _exchange(*ends: tuple[socket.socket, bytes]) -> list[bytes]:
    """Send each end's bytes from a thread of its own, and read as many at the same time."""
    received = [bytearray() for _ in ends]
    threads = [threading.Thread(target=sock.sendall, args=(data,)) for sock, data in ends]
    threads += [threading.Thread(target=_read, args=(sock, into, len(data))) for (sock, data), into in zip(ends, received, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [bytes(into) for into in received]


def _read(sock: socket.socket, into: bytearray, count: int) -> None:
    while len(into) < count:
        data = sock.recv(1 << 16)
        if not data:
            return
        into += data
