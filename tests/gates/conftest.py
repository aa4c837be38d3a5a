"""Gates: what the product promises, each a test with its claim in words and its measurements kept as evidence (`./keepstate prove`)."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.gates.gateway import agents
from tests.gates.room import Room, Subject, room

SABOTAGED = "sabotaged"
#: `./keepstate prove` proves the gates in a stack that has no switch. To start one takes ten seconds of processor time, so the whole suite
#: proves them in that of the sabotages, with nothing switched off.
PLAIN = "plain" if os.environ.get("KEEPSTATE_PLAIN_STACK") else SABOTAGED
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The sabotages come behind the gates, so that a process needs one stack at a time."""
    sabotages = [item for item in items if "sabotaged_room" in getattr(item, "fixturenames", ())]
    others = [item for item in items if item not in sabotages]
    behind = 1 + max((at for at, item in enumerate(others) if "gate_room" in getattr(item, "fixturenames", ())), default=-1)
    items[:] = [*others[:behind], *sabotages, *others[behind:]]


@pytest.fixture(scope="package")
def stack_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Room]]:
    """A whole stack of that kind, instead of the one before: it takes a tenth of a processor while nothing is asked of it."""
    there: dict[str, Room] = {}
    with ExitStack() as running:

        def of(kind: str) -> Room:
            if kind not in there:
                running.close()
                there.clear()
                directory = tmp_path_factory.mktemp(kind)
                there[kind] = running.enter_context(room(directory, switch=directory / "switch" if kind == SABOTAGED else None))
            return there[kind]

        yield of


@pytest.fixture(scope="package")
def caller() -> Callable[[Room], Subject]:
    """One machine for each stack whose programs call a model. A gate that is done with it saves and stops it."""
    known: dict[Path, Subject] = {}

    def of(opened: Room) -> Subject:
        if opened.root not in known:
            known[opened.root] = agents.machine(opened)
        elif not known[opened.root].pids():
            known[opened.root].resume()
        return known[opened.root]

    return of


@pytest.fixture(scope="module")
def gate_room(stack_of: Callable[[str], Room]) -> Room:
    """A stack for the gates that leave it as they found it: short leases, quick sweeps, a file that orders crashes."""
    return stack_of(PLAIN)


@pytest.fixture(scope="module")
def sabotaged_room(stack_of: Callable[[str], Room]) -> Room:
    """A stack in which a gate switches off the mechanism that it is about, and must fail then."""
    return stack_of(SABOTAGED)
