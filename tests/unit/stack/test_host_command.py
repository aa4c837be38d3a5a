"""`./keepstate host --id NAME`: what it refuses before it starts anything."""

import os
from pathlib import Path

import pytest

from keepstate_site.stack import commands, host, hosts, lock
from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import REFUSED, Refused, StackError
from keepstate_site.stack.paths import PROJECT, prepare, write_once
from keepstate_site.stack.services import Services
from workers.host import claim

FLEET = {"DATABASE_URL": "postgresql://db.example/x", "REDIS_URL": "redis://cache.example/0", "CHECKPOINT_STORE_URL": "s3://bucket"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*FLEET, "KEEPSTATE_MASTER_KEY", "KEEPSTATE_HOST_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_without_a_stack_beside_it_each_server_that_is_not_named_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", FLEET["REDIS_URL"])
    with pytest.raises(StackError, match="DATABASE_URL, CHECKPOINT_STORE_URL: not set"):
        host.main(["--id", "h-1"], root)


def test_the_fleets_master_key_is_asked_for_and_none_is_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FLEET.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StackError, match="master key is not here"):
        host.main(["--id", "h-1"], root)
    assert not (root / "secrets" / "master_key").exists()


def test_what_the_look_at_the_fleet_finds_wrong_is_repeated_and_nothing_starts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (FLEET | {"DATABASE_URL": f"postgresql://x@/x?host={root}", "REDIS_URL": f"unix://{root}/none.sock"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")
    write_once(prepare(root).secrets / "master_key", "0" * 64)
    with pytest.raises(StackError, match=r"(?s)h-1 cannot join the fleet. Nothing was started.*FAIL +database.*FAIL +broker"):
        host.main(["--id", "h-1"], root)


def test_a_look_at_the_fleet_that_takes_too_long_is_told_and_nothing_starts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FLEET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(host, "JOIN_SECONDS", 0.01)
    write_once(prepare(root).secrets / "master_key", "0" * 64)
    with pytest.raises(StackError, match=r"h-1 could not look at the fleet within 0.01 s.*Nothing was started"):
        host.main(["--id", "h-1"], root)


def test_a_second_worker_set_of_the_same_host_is_refused(root: Path) -> None:
    with hosts.held(root, ["h-1", "h-2"]):
        with pytest.raises(StackError, match=rf"workers of h-2 run on {root} already \(process {os.getpid()}\)"), hosts.held(root, ["h-2"]):
            pass
        with hosts.held(root, ["h-3"]):
            pass
    with hosts.held(root, ["h-2"]):
        pass


@pytest.mark.parametrize("ready", [True, False])
def test_a_host_whose_worker_is_refused_for_good_ends_as_a_whole_with_its_reason_and_code(
    root: Path, monkeypatch: pytest.MonkeyPatch, ready: bool
) -> None:
    begun, env = root / "begun", {"PATH": os.environ["PATH"]}
    worker = ["sh", "-c", "echo 'CommandError: The host h-1 was retired. To take it back: enrol it.'; exit 78"]
    beside = ["sh", "-c", f"touch {begun}; exec sleep 60"]
    specs = [
        Spec("gateway", beside, begun.exists, env, PROJECT, stop_seconds=5),
        Spec("worker-vm@h-1", worker, lambda: ready, env, PROJECT, final_codes=frozenset({REFUSED})),
    ]
    monkeypatch.setattr(host, "fleet", lambda _: Services(prepare(root), None))
    monkeypatch.setattr(host, "join", lambda *_: None)
    monkeypatch.setattr(host, "phases", lambda *_, **__: [specs])
    with pytest.raises(Refused, match=r"(?s)The host h-1 was retired. To take it back: enrol it."):
        host.main(["--id", "h-1"], root)
    assert Refused.code == REFUSED == claim.REFUSED
    with hosts.held(root, ["h-1"]):
        pass


def test_one_host_keeps_the_id_that_its_root_has_and_several_are_numbered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hosts.ids(root, 1) == hosts.ids(root, 1) == [(root / "host_id").read_text().strip()]
    assert (hosts.ids(root, 0), hosts.ids(root, 3)) == ([], ["h-1", "h-2", "h-3"])
    monkeypatch.setenv("KEEPSTATE_HOST_ID", "h-own")
    assert hosts.ids(root, 1) == ["h-own"]
    with pytest.raises(StackError, match="names one host"):
        hosts.ids(root, 2)


@pytest.mark.parametrize("name", ["", "H-1", "h/1", "a" * 41])
def test_what_could_be_no_queues_name_is_no_host_id(name: str) -> None:
    with pytest.raises(StackError, match="is no host id"):
        hosts.checked(name)


def test_a_command_on_a_fleets_servers_makes_no_key_and_keeps_no_other_command_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FLEET.items():
        monkeypatch.setenv(name, value)
    with lock.exclusive(prepare(root), "services"):
        assert commands.run(root, ["sh", "-c", 'test "$DATABASE_URL" = postgresql://db.example/x && exit 5']) == 5
    assert list((root / "secrets").iterdir()) == []
