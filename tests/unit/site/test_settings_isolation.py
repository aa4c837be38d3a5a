"""The settings that keep machines apart: what makes no sense is refused by name."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from keepstate_site.settings import isolation

NAME, DEFAULT = "KEEPSTATE_MACHINE_UIDS", "1900000000-1900065535"


def test_by_default_machines_have_ids_that_nobody_else_gives_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    assert isolation.uids(NAME, DEFAULT) == range(1_900_000_000, 1_900_065_536)


@pytest.mark.parametrize(
    "value", ["0-10", "999-2000", "5000", "5000-4000", "5000-", "-1-5000", "5000-4294967295", "5000-99999999999", "a-b"]
)
def test_a_range_that_is_none_or_holds_the_systems_own_users_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        isolation.uids(NAME, DEFAULT)


def test_a_range_of_one_is_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "5000-5000")
    assert isolation.uids(NAME, DEFAULT) == range(5000, 5001)


def test_no_control_groups_are_used_unless_a_directory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEPSTATE_CGROUP", raising=False)
    assert isolation.directory("KEEPSTATE_CGROUP") is None
    monkeypatch.setenv("KEEPSTATE_CGROUP", "/sys/fs/cgroup/machines")
    assert isolation.directory("KEEPSTATE_CGROUP") == Path("/sys/fs/cgroup/machines")
