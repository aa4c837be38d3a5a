"""Two beats: every turn of the schedule at the same time as itself, again and again, until nothing more comes of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as conf
from django.db.models.functions import Now

from tests.integration.turns.work import Work
from tests.support.fleet import host_with_image
from tests.support.receiver import Receiver, receiver
from tests.support.threads import at_once
from workers.models import Host

SCHEDULE: dict[str, dict[str, Any]] = conf.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
ROUNDS = 10
#: Of what one of them is no evidence that its turn had any work: what it must have made, at least.
WORK = {
    ("Operation", "checkpoint", "queued"),
    ("Operation", "boot", "failed"),
    ("SessionEvent", "session.idle_warning"),
    ("SessionEvent", "session.budget_exhausted"),
    ("SessionEvent", "session.checkpoint_expired"),
    ("ServiceRecord", "usage.awake"),
    ("ServiceRecord", "usage.stored"),
    ("ServiceRecord", "account.deleted"),
    ("Call", "unknown"),
    ("UsageEntry", True),
    ("Checkpoint", "erased"),
    ("WebhookDelivery", "delivered", 1),
    ("OrphanObject", None),
    ("AccountDeletion", "done"),
}
GONE = {("Plan", "fork"), ("ServiceRecord", "session.told_long_ago")}

pytestmark = pytest.mark.usefixtures("store", "transactional_db")


@pytest.fixture
def hook(settings: Any) -> Iterator[Receiver]:
    settings.KEEPSTATE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with receiver() as one:
        yield one


def every_turn() -> None:
    for entry in SCHEDULE.values():
        current_app.tasks[entry["task"]].run()


def every_turn_twice() -> None:
    for entry in SCHEDULE.values():
        turn = current_app.tasks[entry["task"]].run
        at_once(2, lambda _, turn=turn: turn())  # type: ignore[misc]


def made_by(turns: Callable[[], None], name: str, hook: Receiver) -> Counter[Any]:
    """All that comes of a work until nothing changes any more; what was sent to its webhook too."""
    hook.got.clear()
    work, before = Work(name, hook.url), Counter[Any]()
    for _ in range(ROUNDS):
        turns()
        if before == (now := work.made()):
            break
        before = now
    else:
        raise AssertionError(f"the turns find no end: {now - before}")
    return now + Counter({("webhook", "sent"): len(hook.got), ("webhook", "messages"): len({one["webhook-id"] for one, _ in hook.got})})


def test_turns_that_run_twice_at_once_make_what_they_make_once(hook: Receiver, doorbells: list[Any]) -> None:
    current_app.loader.import_default_modules()
    host_with_image()
    Host.objects.update(heartbeat_at=Now() + timedelta(days=1))  # however long the test takes, its host is not lost
    once, twice = made_by(every_turn, "once", hook), made_by(every_turn_twice, "twice", hook)
    assert (WORK - set(once), GONE & set(once)) == (set(), set())
    assert once[("webhook", "sent")] == once[("webhook", "messages")] > 0
    assert (twice - once, once - twice) == (Counter(), Counter())
