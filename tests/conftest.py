"""What holds for every test."""

from collections.abc import Iterator

import pytest

from tests.support.outside_data import remove_below


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    remove_below(tmp_path_factory.getbasetemp())
