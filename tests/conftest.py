"""What holds for every test."""

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from pytest_django import DjangoDbBlocker
from xdist.scheduler import LoadFileScheduling

from tests.support.database_copy import use_copy
from tests.support.kept import let_tests_empty_tables
from tests.support.outside_data import remove_below
from tests.support.remembered import forget_what_tests_change

if TYPE_CHECKING:
    from tests.support.seaweed import S3Server


settings.register_profile(
    "suite", max_examples=40, deadline=None
)  # the whole suite has a quarter of an hour; other examples are drawn in each run
settings.register_profile("thorough", max_examples=1000, deadline=None)  # pytest --hypothesis-profile=thorough
settings.load_profile("suite")
let_tests_empty_tables()
forget_what_tests_change()


#: Gates share a stack that takes ten seconds of processor time to start: their files run on one process, in two halves of like length.
_FIRST_HALF = ("test_gate_1_memory", "test_gate_2a_load", "test_gate_4_unattended", "test_gate_5_forks", "test_gate_6_rate")
_USE_A_STACK = [path.stem for path in (Path(__file__).parent / "gates").glob("test_gate_*.py") if "_room: Room" in path.read_text()]
_STACK_OF = {file: "gates a" if file in _FIRST_HALF else "gates b" for file in _USE_A_STACK}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The soak and the stacks' files come first: they take longest, and wait as much as they work, so that others should run beside them.
    As they are collected (first what uses the database) all machines would come last, beside each other.
    """
    items.sort(key=lambda item: (item.get_closest_marker("soak") is None, item.path.stem not in _STACK_OF))


class _ByStack(LoadFileScheduling):
    """Which tests stay together where several processes run them: those of a stack, else those of a file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _STACK_OF.get(PurePath(file).stem, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _ByStack(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
    django_db_blocker: DjangoDbBlocker,
    worker_id: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """pytest-django's own, with one database for all processes to copy."""
    if worker_id != "master":
        with django_db_blocker.unblock():
            use_copy(worker_id, tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    remove_below(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["S3Server"]:
    """One S3 server for the whole run; each test takes a location of its own in it."""
    from tests.support.seaweed import seaweed  # boto3 is slow to load, and most tests do not need it

    with seaweed(tmp_path_factory.mktemp("s3")) as server:
        yield server
