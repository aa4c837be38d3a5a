import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.outside_data import remove_below


@pytest.fixture(autouse=True, scope="module")
def own_servers() -> Iterator[None]:
    """What the surrounding run was given must not reach the stacks that these tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "DATABASE_URL",
            "REDIS_URL",
            "CHECKPOINT_STORE_URL",
            "KEEPSTATE_SECRET_KEY",
            "KEEPSTATE_MASTER_KEY",
            "DJANGO_SETTINGS_MODULE",
        ):
            patch.delenv(name, raising=False)
        yield


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
