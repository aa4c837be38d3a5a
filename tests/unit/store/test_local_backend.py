"""The local backend: the suite, and what is its own."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoints_app.store import (
    LocalBackend,
    NoSpaceError,
    PermissionDeniedError,
    StoreError,
    UnavailableError,
)
from checkpoints_app.store.backends.durable import typed_errors
from tests.store_suite import A, B, BackendSuite


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "store")


def files_below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


class TestLocalBackend(BackendSuite):
    @pytest.fixture
    def backend(self, tmp_path):
        return LocalBackend(tmp_path / "store")


def test_only_its_user_may_read_what_it_stores(backend):
    backend.put_if_absent(A, [b"x"])
    modes = {path.stat().st_mode & 0o777 for path in backend.root.rglob("*") if path.is_file()}
    directories = {path.stat().st_mode & 0o777 for path in (backend.root, *backend.root.rglob("*")) if path.is_dir()}
    assert (modes, directories) == ({0o600}, {0o700})


def test_a_batch_shows_nothing_before_publish_and_leaves_nothing_after_discard(backend):
    batch = backend.batch()
    batch.put(A, [b"x"])
    assert list(backend.list("")) == []
    batch.discard()
    assert files_below(backend.root) == []


def test_publish_leaves_nothing_in_staging(backend):
    backend.put_if_absent(A, [b"x"])
    assert list((backend.root / "staging").iterdir()) == []


def test_a_full_place_is_told_as_such_and_keeps_no_part(backend):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    batch = backend.batch()
    batch.put(A, [b"x" * 100])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(NoSpaceError, match="free space"):
            batch.put(B, [bytes(1 << 20), bytes(1 << 20)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.stat().st_size for path in files_below(backend.root)] == [100]
    batch.publish()
    assert [listed.key for listed in backend.list("")] == [A]


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [
        (errno.ENOSPC, NoSpaceError, "no_space"),
        (errno.EDQUOT, NoSpaceError, "no_space"),
        (errno.EACCES, PermissionDeniedError, "permission"),
        (errno.EROFS, PermissionDeniedError, "permission"),
        (errno.EIO, UnavailableError, "unavailable"),
        (errno.ESTALE, UnavailableError, "unavailable"),
    ],
)
def test_each_failure_of_the_system_has_its_type(number, error, code):
    with pytest.raises(error, match="some/key") as caught, typed_errors("some/key"):
        raise OSError(number, os.strerror(number))
    assert caught.value.code == code


def test_a_listing_that_cannot_be_finished_is_an_error_and_not_a_short_list(backend, monkeypatch):
    backend.put_if_absent(A, [b"x"])
    backend.put_if_absent("accounts/one/packs/bb11", [b"y"])
    scan = os.scandir

    def scan_that_fails(path):
        if str(path).endswith("/bb"):
            raise PermissionError(errno.EACCES, "no")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_that_fails)
    with pytest.raises(PermissionDeniedError):
        list(backend.list(""))


def test_files_that_are_no_objects_are_not_listed(backend):
    backend.put_if_absent(A, [b"x"])
    (backend.root / "objects" / "stray").write_bytes(b"?")
    (backend.root / "objects" / "accounts" / "one" / "packs" / "aa" / "zz").symlink_to("/etc/passwd")
    assert [listed.key for listed in backend.list("")] == [A]


def test_a_failure_to_sync_publishes_nothing(backend, monkeypatch):
    def sync_that_fails(descriptor):
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fsync", sync_that_fails)  # before the put: its bytes are synced beside the next ones
    batch = backend.batch()
    batch.put(A, [b"x"])
    with pytest.raises(UnavailableError):
        batch.publish()
    assert files_below(backend.root) == []


def test_what_a_dead_process_left_in_staging_is_removed_and_a_living_batch_is_not(backend):
    program = (
        "import os, signal, sys; from checkpoints_app.store import LocalBackend\n"
        f"batch = LocalBackend(sys.argv[1]).batch(); batch.put({A!r}, [b'x' * 9]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(backend.root)], check=False, cwd=Path(__file__).parents[3])
    living = backend.batch()
    living.put(B, [b"y"])
    assert ended.returncode == -9
    assert len(files_below(backend.root)) == 2
    assert (backend.remove_abandoned(), backend.remove_abandoned()) == (1, 0)
    living.publish()
    assert [listed.key for listed in backend.list("")] == [B]


def test_every_error_is_a_store_error(backend):
    with pytest.raises(StoreError):
        backend.read(A, 0, 1)
