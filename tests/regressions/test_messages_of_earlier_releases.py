"""An upgrade finds what the releases before have left: doorbells in the broker, and rows that their processes write beside new ones."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection

from sessions_app.services import dispatch

RELEASED = Path(__file__).parent / "released"
MESSAGES: dict[str, Any] = json.loads((RELEASED / "messages.json").read_text())
NEWEST: dict[str, Any] = json.loads((RELEASED / "newest.json").read_text())

_SCHEMA = """
SELECT table_name, column_name, is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES'
FROM information_schema.columns WHERE table_schema = current_schema()
"""


@pytest.fixture(scope="module", autouse=True)
def tasks_are_loaded() -> None:
    current_app.loader.import_default_modules()


@pytest.mark.parametrize(("task", "arguments"), sorted(MESSAGES["tasks"].items()))
def test_a_doorbell_of_any_release_is_heard(task: str, arguments: int) -> None:
    """By that name, with as many arguments. A task that is no more would be dropped by its worker with an error in the log."""
    inspect.signature(current_app.tasks[task].run).bind(*["x"] * arguments)


def test_what_the_beat_of_the_release_before_sends_is_heard() -> None:
    assert NEWEST["beat"]
    assert [task for task in NEWEST["beat"] if task not in current_app.tasks] == []


def test_what_this_beat_sends_to_workers_of_the_release_before_is_for_the_control_queue_alone() -> None:
    """Control workers of before drop what they do not know; those of hosts are exchanged last, and must be sent nothing new."""
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
    new = [entry for entry in schedule.values() if entry["task"] not in MESSAGES["tasks"]]
    assert {entry["options"]["queue"] for entry in new} <= {dispatch.CONTROL_QUEUE}


def test_queues_have_the_names_that_workers_of_the_release_before_listen_on() -> None:
    digest = "0123456789abcdef" * 4
    named = (dispatch.host_queue("h-1"), dispatch.io_queue("h-1"), dispatch.pin_queue(digest), dispatch.CONTROL_QUEUE)
    assert named == ("host.h-1", "io.h-1", "pin.0123456789abcdef", "control")


def test_what_waits_for_a_host_is_rung_by_no_sweep_of_the_release_before() -> None:
    """That one rings in the queues of hosts and pins and in `control`: a boot rung there would meet a worker without machines."""
    assert not dispatch.WAITING_QUEUE.startswith(("host.", "io.", "pin.", dispatch.CONTROL_QUEUE))


@pytest.fixture
def columns(db: None) -> dict[str, dict[str, bool]]:
    """By table, each column and whether a row may be inserted without a word of it."""
    found: dict[str, dict[str, bool]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_SCHEMA)
        for table, column, optional in cursor.fetchall():
            found.setdefault(table, {})[column] = optional
    return found


def test_the_release_before_finds_each_column_that_it_reads(columns: dict[str, dict[str, bool]]) -> None:
    wanted = {table: set(named.split()) for table, named in NEWEST["tables"].items()}
    assert len(wanted) > 20
    assert {table: gone for table, named in wanted.items() if (gone := named - set(columns.get(table, {})))} == {}


def test_the_release_before_may_insert_rows_that_know_nothing_of_what_is_new(columns: dict[str, dict[str, bool]]) -> None:
    known = {table: set(named.split()) for table, named in NEWEST["tables"].items()}
    demanded = [
        f"{table}.{column}"
        for table, named in known.items()
        for column, optional in columns[table].items()
        if column not in named and not optional
    ]
    assert demanded == []
