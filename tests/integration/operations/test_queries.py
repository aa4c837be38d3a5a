"""What an operation asks of the database costs the same however many sessions, operations and checkpoints there are.

A deletion is not judged here: how it finds who shares what depends on what the planner knows of the rows. The benches `api` and `control`
measure it.
"""

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Session
from tests.integration.operations.forking import forked
from tests.integration.operations.world import World, succeeded
from tests.support.plans import reads_whole
from workers.fleet import turn
from workers.operations.observe import observe
from workers.sweep import sweep

#: Tables with a row or more for each session, operation or save.
GROWING = frozenset(
    {
        "checkpoints_app_checkpoint",
        "checkpoints_app_manifestedge",
        "checkpoints_app_pack",
        "checkpoints_app_packedge",
        "gateway_app_call",
        "sessions_app_operation",
        "sessions_app_servicerecord",
        "sessions_app_session",
        "sessions_app_sessionevent",
        "sessions_app_webhookdelivery",
    }
)
#: Indexes of what has not ended.
SMALL = frozenset({"one_exclusive_operation", "operation_waits", "operation_waits_as"})


def life(world: World, session: Session) -> None:
    world.boot()
    world.save(session)
    succeeded(world.ask_exec(session, "true"))
    world.save(session, stop=True)
    world.resume(session)
    forked(world, session)


def turns() -> None:
    observe()
    sweep()
    turn.take()


WORK: dict[str, Callable[[World, Session], object]] = {
    "a session's life": life,
    "turns": lambda *_: turns(),
}


@pytest.mark.parametrize("name", WORK)
def test_it_reads_no_table_that_grows_from_end_to_end(world: World, session: Session, name: str) -> None:
    world.save(session)
    with CaptureQueriesContext(connection) as seen:
        WORK[name](world, session)
    statements = list(dict.fromkeys(one["sql"] for one in seen))
    assert len(statements) > 3
    with transaction.atomic():
        found = reads_whole(statements, GROWING, SMALL)
        transaction.set_rollback(True)
    assert found == {}


@pytest.mark.django_db
def test_what_would_is_told() -> None:
    assert set(connection.introspection.table_names()) >= GROWING
    statement = "SELECT id FROM sessions_app_session WHERE park_reason = 'x' ORDER BY id LIMIT 1"
    (told,) = reads_whole([statement], GROWING, SMALL)
    assert told.startswith("sessions_app_session: ")
