"""Parameters of which the whole suite takes a few, for it has a quarter of an hour; `./keepstate prove` takes all."""

from collections.abc import Iterable
from typing import Any

import pytest


def sparse(chosen: Iterable[Any], every: int) -> list[Any]:
    """The first and each so many after it are everybody's, the others are marked `long`."""
    return [one if number % every == 0 else _long(one) for number, one in enumerate(chosen)]


def _long(one: Any) -> Any:
    return pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.long)
