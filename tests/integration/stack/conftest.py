import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstate_site.stack import RunningStack, running
from tests.support.outside_data import remove_below


@pytest.fixture(autouse=True, scope="module")
def own_servers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _NOT_OURS:
            patch.delenv(name, raising=False)
        yield


#: Of the surrounding run; they must not reach the stacks that these tests start.
_NOT_OURS = ("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL", "KEEPSTATE_SECRET_KEY", "KEEPSTATE_MASTER_KEY", "DJANGO_SETTINGS_MODULE")
FAKE = {"KEEPSTATE_MACHINE_DRIVER": "fake", "KEEPSTATE_DEAF_SECONDS": "10"}


@pytest.fixture(scope="package")
def fake_stack() -> Iterator[RunningStack]:
    """A whole stack with the fake hypervisor for all files of this directory that want one: each start is ten seconds of a processor."""
    directory = Path(tempfile.mkdtemp(prefix="ks-"))
    directory.chmod(0o755)
    try:
        with running(directory, env=FAKE | dict.fromkeys(_NOT_OURS, "")) as started:
            yield started
    finally:
        remove(directory)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A root that every user can enter (pytest's own directories are closed), removed with whatever it kept elsewhere."""
    directory = Path(tempfile.mkdtemp(prefix="ks-"))
    directory.chmod(0o755)
    yield directory
    remove(directory)


@pytest.fixture
def closed_root() -> Iterator[Path]:
    """A root below a directory that only its owner can enter."""
    closed = Path(tempfile.mkdtemp(prefix="ks-closed-"))
    yield closed / "var"
    remove_below(closed)
    shutil.rmtree(closed)


def remove(root: Path) -> None:
    remove_below(root)
    shutil.rmtree(root, ignore_errors=True)
