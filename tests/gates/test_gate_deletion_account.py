"""Gate: an account's deletion, killed at each of its steps and taken up again, leaves nothing of the account anywhere but in the service
record and the receipt, which hold none of its content.
"""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings
from structlog.stdlib import ProcessorFormatter

from checkpoints_app.models import ErasureReceipt
from checkpoints_app.services import account_erase, receipt
from sessions_app.models import Account, AccountDeletion, Operation, ServiceRecord, Session
from sessions_app.services import account_deletion, account_run, record
from sessions_app.states import OPERATION_ACTIVE
from tests.gates.erasure.marked import MARK, everything, files_with, plant, rows_with, stored_of
from tests.integration.operations.conftest import doorbells, host, world
from tests.integration.operations.world import Died, World, done, expire, live_machines, runtime_directories
from tests.support import fleet
from workers.crash import DELETE_STEPS
from workers.operations import delete
from workers.operations.observe import observe

__all__ = ["doorbells", "host", "world"]

STEPS = [
    *("begun", "tokens_revoked", "sessions_deleted", "content_erased", "row_batch", "rows_erased", "account_erased", "signed"),
    *(f"store: {step}" for step in ("condemned", "object_deleted", "key_object_deleted", "key_row_deleted", "rows_deleted")),
]


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """All log lines, as the product writes them, whatever their level."""
    written, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    handler.setFormatter(next(one.formatter for one in root.handlers if isinstance(one.formatter, ProcessorFormatter)))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


class Scene:
    """The deletion of a marked account, step by step; `died_at` grows."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch):
        self.world, self.died_at = world, list[str]()
        self.session = plant(world)
        self.other = fleet.session_row(fleet.tenant("bystander").account, saved=True)
        self.account_id = world.account.id
        shown = account_deletion.make_plan(world.account)
        self.deletion, _ = account_deletion.schedule(world.account, plan_id=shown.id, confirm=MARK, actor="tok_test")
        monkeypatch.setattr(account_erase, "no_step", lambda name: self.step(f"store: {name}"))

    def step(self, name: str) -> None:
        """Every step is the last one once."""
        if name in STEPS and name not in self.died_at:
            self.died_at.append(name)
            raise Died(name)

    def turn(self) -> bool:
        """A turn of the beat, by as many workers as die in it."""
        while True:
            try:
                return account_run.advance(self.deletion.id, step=self.step)
            except Died:
                continue

    def hosts_work(self) -> None:
        """The deletions of sessions that were asked for, each by a worker that dies at each step, and its successors."""
        for operation in Operation.objects.filter(state__in=OPERATION_ACTIVE, kind="delete"):
            for name in DELETE_STEPS:
                self.world.die_at(name)
                with pytest.raises(Died):
                    done(operation)
                expire(operation)
                Operation.objects.filter(id=operation.id).update(max_attempts=9)
            assert done(operation).state == "succeeded", operation.error

    def carry_out(self) -> None:
        assert not self.turn(), "its session is still being deleted"
        self.hosts_work()
        assert self.turn()
        observe()

    def judge(self, logs: str) -> None:
        assert everything(self.account_id, logs) == {}
        assert (live_machines(), runtime_directories()) == ([], [])
        assert rows_with(self.session.id).keys() <= {"sessions_app_servicerecord"}


def evidence_before(scene: Scene) -> dict[str, Any]:
    """What the search is to find nothing of is there: else it would prove nothing."""
    tables = rows_with(MARK)
    assert {"sessions_app_account", "sessions_app_session", "sessions_app_operation", "checkpoints_app_checkpoint"} <= tables.keys()
    assert {"sessions_app_membership", "auth_user"} & tables.keys()
    files = files_with(MARK)
    assert any("/cache/memory/" in name for name in files), "an image that was assembled from the store bears it, in the clear"
    assert any("/machines/" in name for name in files)
    objects = stored_of(scene.account_id)
    assert len(objects) >= 3
    return {"tables with the mark": len(tables), "files with it": len(files), "objects of the account": len(objects)}


@pytest.mark.gate("deletion", "an account's deletion killed at every step ends with nothing of it but the service record and one receipt")
def test_nothing_of_the_account_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: Settings, logs: io.StringIO, evidence: dict[str, Any]
) -> None:
    settings.KEEPSTATE_ACCOUNT_GRACE_HOURS = 0
    scene = Scene(world, monkeypatch)
    before = evidence_before(scene)
    scene.carry_out()
    assert sorted(scene.died_at) == sorted(STEPS), "a turn died at each step"
    assert "operation ended" in logs.getvalue(), "there are logs to search"
    scene.judge(logs.getvalue())
    signed = ErasureReceipt.objects.get()
    assert receipt.is_genuine(signed)
    assert (signed.deletion_id, (signed.erased or {})["sessions"]) == (scene.deletion.id, 1)
    assert AccountDeletion.objects.get().state == "done"
    assert ServiceRecord.objects.filter(account_id=scene.account_id, type="account.deleted").count() == 1
    assert Account.objects.filter(name="bystander").exists()
    assert Session.objects.filter(id=scene.other.id, checkpoints__state="published").exists(), "another account is untouched"
    evidence |= {**before, "died at": len(scene.died_at), "left": "service record, receipt"}


@pytest.mark.parametrize("fault", ["images stay on the host", "the store is forgotten", "the record tells a name", "a log tells a name"])
def test_the_gate_notices(world: World, monkeypatch: pytest.MonkeyPatch, settings: Settings, logs: io.StringIO, fault: str) -> None:
    settings.KEEPSTATE_ACCOUNT_GRACE_HOURS = 0
    scene = Scene(world, monkeypatch)
    scene.died_at = list(STEPS)
    if fault == "images stay on the host":
        monkeypatch.setattr(delete, "forget_images", lambda _: None)
    elif fault == "the store is forgotten":
        monkeypatch.setattr(account_erase, "_delete_objects", lambda *_: None)
        monkeypatch.setattr(account_erase, "_delete_key", lambda *_: None)
    elif fault == "the record tells a name":
        write = record.write
        monkeypatch.setattr(record, "write", lambda *words, **facts: write(*words, **{**facts, "actor": MARK}))
    account_run.advance(scene.deletion.id)
    for operation in Operation.objects.filter(state__in=OPERATION_ACTIVE, kind="delete"):
        done(operation)
    account_run.advance(scene.deletion.id)
    if fault == "a log tells a name":
        logging.getLogger("workers").info("deleted", extra={"account_name": MARK})
    with pytest.raises(AssertionError):
        scene.judge(logs.getvalue())
