import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keepstate_site.stack import home, keys
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.home import CLOSED_CHECKOUTS, LONGEST_SOCKET, SOCKET_BYTES, User
from keepstate_site.stack.paths import prepare, write_once


def test_keys_are_made_once_private_and_never_replaced(tmp_path: Path) -> None:
    paths = prepare(tmp_path / "var")
    keys.ensure(paths)
    before = {name: (paths.secrets / name).read_text() for name in keys.KEYS}
    keys.ensure(paths)
    assert before == {name: (paths.secrets / name).read_text() for name in keys.KEYS}
    assert all((paths.secrets / name).stat().st_mode & 0o777 == 0o600 for name in keys.KEYS)
    assert len(set(before.values())) == len(keys.KEYS)


def test_of_many_writers_at_once_one_wins_and_all_read_the_same(tmp_path: Path) -> None:
    file = tmp_path / "name"

    def write(number: int) -> str:
        write_once(file, f"writer {number}")
        return file.read_text()

    with ThreadPoolExecutor(8) as pool:
        read = set(pool.map(write, range(64)))
    assert len(read) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["name"]


def test_a_deep_root_gets_sockets_at_a_path_that_the_kernel_takes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    found = home.locate(prepare(deep), None)
    assert len(os.fsencode(found.sockets / LONGEST_SOCKET)) <= SOCKET_BYTES
    assert found.data == deep / "services"


def test_a_socket_directory_of_someone_else_is_refused(tmp_path: Path) -> None:
    paths = prepare(tmp_path / "var")
    found = home.locate(paths, None)
    found.sockets.mkdir(parents=True, mode=0o755)
    found.sockets.chmod(0o755)
    with pytest.raises(StackError, match="is not a private directory"):
        home.make(found, paths)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the services to another user")
def test_a_root_that_the_service_user_cannot_enter_keeps_its_data_elsewhere(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    paths = prepare(closed / "var")
    nobody = User("nobody", 65534, 65534)
    found = home.locate(paths, nobody)
    assert found.data == CLOSED_CHECKOUTS / paths.instance
    assert home.locate(paths, nobody) == found
    assert home.locate(prepare(closed / "other"), nobody).data != found.data


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the services to another user")
def test_data_inside_a_root_that_was_closed_later_is_not_silently_left_behind(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    paths = prepare(closed / "var")
    (paths.root / "services").mkdir()
    with pytest.raises(StackError, match="can no longer enter it"):
        home.locate(paths, User("nobody", 65534, 65534))
