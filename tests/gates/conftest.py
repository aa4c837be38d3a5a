"""Gates: what the product promises, each a test with its claim in words and its measurements kept as evidence (`./keepstate prove`)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gates.room import Room, room

_KEY = pytest.StashKey[dict[str, Any]]()
_RESULTS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gates-json", type=Path, help="write the gates' evidence to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = []


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a gate measured. A gate that passes with no evidence fails."""
    return request.node.stash.setdefault(_KEY, {})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    gate = item.get_closest_marker("gate")
    if gate is not None and gate.args and report.when == "call":
        measured = item.stash.get(_KEY, {})
        if report.passed and not measured:
            report.outcome, report.longrepr = "failed", "the gate passed without evidence"
        item.config.stash[_RESULTS].append(
            {
                "gate": gate.args[0],
                "claim": gate.args[1],
                "passed": report.passed,
                "measured": measured,
                "seconds": round(report.duration, 2),
            }
        )
    return report  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--gates-json")
    if file is not None:
        file.write_text(json.dumps({"gates": session.config.stash[_RESULTS]}, indent=2) + "\n")


@pytest.fixture(scope="package")
def gate_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """One whole stack for the gates that leave it as they found it: short leases, quick sweeps, a file that orders crashes.

    It goes with the last gate of a process, for it takes a tenth of a processor while nothing is asked of it.
    """
    with room(tmp_path_factory.mktemp("gates")) as opened:
        yield opened


@pytest.fixture(scope="package")
def sabotaged_room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A stack in which a gate switches off the mechanism that it is about, and must fail then."""
    directory = tmp_path_factory.mktemp("sabotaged")
    with room(directory, switch=directory / "switch") as opened:
        yield opened
