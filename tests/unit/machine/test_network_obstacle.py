"""A host that may not make networks is found out by trying, and starts its machines all the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.machine.network import namespace
from workers.machine.process import libc
from workers.machine.qemu.driver import QemuDriver


@pytest.fixture
def not_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(_flags: int) -> None:
        raise PermissionError(1, "Operation not permitted", "unshare")

    namespace.obstacle.cache_clear()
    monkeypatch.setattr(libc, "unshare", refuse)
    yield
    namespace.obstacle.cache_clear()


@pytest.mark.usefixtures("not_allowed")
def test_what_keeps_it_from_them_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    told = namespace.obstacle()
    assert told is not None
    assert "Operation not permitted" in told
    driver = QemuDriver(tmp_path / "proofs", networks=tmp_path / "net")
    assert not driver.capabilities().network
    assert list(tmp_path.iterdir()) == []


def test_a_driver_that_was_given_no_place_for_networks_gives_none(tmp_path: Path) -> None:
    assert not QemuDriver(tmp_path / "proofs").capabilities().network
