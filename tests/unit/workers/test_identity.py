"""Which host this is."""

import os
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.support.threads import at_once
from workers.host.identity import epoch_of, host_id, machines_directory, runtime_directory


def named(settings: Settings, name: str) -> str:
    settings.KEEPSTATE_HOST_ID = name
    host_id.cache_clear()
    return host_id()


@pytest.fixture
def unnamed(host: Path, settings: Settings) -> Path:
    settings.KEEPSTATE_HOST_ID = ""
    host_id.cache_clear()
    return Path(settings.KEEPSTATE_VAR) / "host_id"


@pytest.mark.parametrize("name", ["a", "h-1", "0", "a" * 40])
def test_a_good_id_is_taken(host: Path, settings: Settings, name: str) -> None:
    assert named(settings, name) == name


@pytest.mark.parametrize("name", ["A", "a.b", "a/b", "../a", "-a", "a" * 41, "ä", "a b", "a\n", "."])
def test_an_id_that_could_be_a_path_or_a_queue_of_another_is_refused(host: Path, settings: Settings, name: str) -> None:
    with pytest.raises(ValueError, match="host id"):
        named(settings, name)


def test_an_id_is_drawn_once_and_kept(unnamed: Path) -> None:
    first = host_id()
    host_id.cache_clear()
    assert host_id() == first == unnamed.read_text()
    assert [path.name for path in unnamed.parent.iterdir()] == ["host_id"]


def test_workers_that_start_together_agree_on_one_id(unnamed: Path) -> None:
    drawn = at_once(8, lambda _: host_id.__wrapped__())
    assert len(set(drawn)) == 1


def test_a_worker_never_reads_an_id_that_another_has_not_written_yet(unnamed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has its name only once it is whole."""
    urandom, seen = os.urandom, list[bool]()

    def look(count: int) -> bytes:
        seen.append(unnamed.exists())
        return urandom(count)

    monkeypatch.setattr("os.urandom", look)
    host_id()
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("content", ["", "\n", "../x"])
def test_a_kept_id_that_is_no_id_is_refused_and_the_file_named(unnamed: Path, content: str) -> None:
    unnamed.parent.mkdir(parents=True)
    unnamed.write_text(content)
    with pytest.raises(ValueError, match=str(unnamed)):
        host_id()


def test_the_epoch_is_read_back_from_a_runtime_directory(host: Path) -> None:
    assert epoch_of(runtime_directory("0123abcd", 12)) == 12


@pytest.mark.parametrize("name", ["0123abcd", "0123abcd.", "0123abcd.x", "0123abcd.1.2", "0123abcd.-1", "0123abcd.1-copy", "a.²", "a.١"])
def test_a_name_that_is_not_ours_has_no_epoch(host: Path, name: str) -> None:
    assert epoch_of(machines_directory() / name) is None
