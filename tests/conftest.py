"""What holds for every test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.outside_data import remove_below

if TYPE_CHECKING:
    from tests.support.seaweed import S3Server


settings.register_profile("suite", max_examples=40)  # the whole suite has a quarter of an hour; other examples are drawn in each run
settings.register_profile("thorough", max_examples=1000)  # pytest --hypothesis-profile=thorough
settings.load_profile("suite")


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
