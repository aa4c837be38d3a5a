"""Operations that any earlier release has accepted and not done: the row as it wrote it, carried out by this one."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from sessions_app.ids import new_operation_id
from sessions_app.models import Account, Operation, Session
from sessions_app.services import dispatch, steering
from sessions_app.services import session as sessions
from sessions_app.services.session import Wanted
from sessions_app.states import SessionState
from tests import regressions
from tests.integration.operations.forking import created, resumes
from tests.integration.operations.world import HOST, IMAGE, World, succeeded
from workers import sweep
from workers.host.pins import pin_here

RELEASED = json.loads((Path(regressions.__file__).parent / "released" / "messages.json").read_text())["operations"]
#: What a release before the columns of placement put into a row; the others had their defaults then as now.
_INSERT = """
INSERT INTO sessions_app_operation (id, account_id, session_id, kind, state, parameters, queue, method, path, body_digest, attempt,
  max_attempts, lease_owner, progress) VALUES (%s, %s, %s, %s, 'queued', %s, %s, '', '', '', 0, 3, '', '{}')
"""
PARKED = ("resume", "restore")


def session_for(world: World, row: dict[str, Any]) -> Session:
    """As the release that accepted it left the session: a boot's has no host yet."""
    if row["kind"] == "boot":
        session = sessions.draft(world.account, Wanted(image=IMAGE, memory_mib=128))
        with transaction.atomic():
            sessions.begin(session)
        return session
    session = world.boot()
    if "checkpoint_id" in row["parameters"]:
        world.save(session, stop=row["kind"] in PARKED)
    if row["kind"] == "delete":
        Session.objects.filter(id=session.id).update(runtime_state=SessionState.DELETING)
        session.refresh_from_db()
    return session


def queued(account: Account, session: Session, row: dict[str, Any]) -> Operation:
    filled = {"CHECKPOINT": session.head_checkpoint_id, "EPOCH": session.epoch}
    parameters: dict[str, Any] = {name: filled.get(str(value), value) for name, value in row["parameters"].items()}
    if "steers" in parameters:
        parameters["steers"] = [steering.packed(steering.seal(account.id, "go left")) for _ in parameters["steers"]]
    queues = {"host": dispatch.host_queue(HOST), "io": dispatch.io_queue(HOST), "control": dispatch.CONTROL_QUEUE}
    queue = queues.get(row["queue"]) or dispatch.pin_queue(pin_here(session.architecture).digest)
    operation_id = new_operation_id()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [operation_id, account.id, session.id, row["kind"], json.dumps(parameters), queue])
    return Operation.objects.select_related("session").get(id=operation_id)


@pytest.mark.parametrize("row", RELEASED, ids=lambda row: f"{row['kind']}-{row['since']}-{row['queue']}")
def test_a_row_of_an_earlier_release_is_rung_and_carried_out(
    world: World, doorbells: list[tuple[str, ...]], row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_for(world, row)
    operation = queued(world.account, session, row)
    monkeypatch.setattr(sweep, "UNHEARD", -sweep.UNHEARD)  # it was asked for long ago
    doorbells.clear()
    sweep.sweep()
    assert (dispatch.RUN_OPERATION, operation.queue, operation.id) in doorbells
    if row["kind"] == "fork":  # its first part makes the children, and its last tells of them
        for resume in resumes(created(operation)):
            succeeded(resume)
    succeeded(operation)
