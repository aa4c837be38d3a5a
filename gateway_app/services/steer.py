"""Steers: a text for a session's next model call and no other. Sealed from the request on; shown again to nobody, only as its hash."""

from django.db import transaction

from gateway_app.models import Call, Steer
from gateway_app.services import live
from sessions_app.errors import Conflict
from sessions_app.models import Session
from sessions_app.services import account as accounts
from sessions_app.services import cursor as cursors
from sessions_app.services import event, steering, steps
from sessions_app.services.cursor import Page

MOST_WAITING = 32


@transaction.atomic
def add(session: Session, text: str) -> Steer:
    """It waits for the session's next call that has a place for it. Raises Invalid, WrongState, or Conflict for one too many."""
    sealed = steering.seal(session.account_id, text)
    accounts.require_open(session.account_id)
    session = live.lock(session)
    if Steer.objects.filter(session=session, used_at__isnull=True).count() >= MOST_WAITING:
        raise Conflict(
            f"{MOST_WAITING} steers wait for the session's next calls, and no more are taken. Nothing was kept.",
            next_action="Let the session make its calls, then steer again.",
            code="ks_quota_exceeded",
        )
    return keep(session, sealed)


def keep(session: Session, steer: steps.Steer) -> Steer:
    """Prerequisite: inside a transaction that holds or makes the session."""
    kept = Steer.objects.create(session=session, sealed_text=steer.sealed, text_sha256=steer.sha256)
    event.append(session.id, "session.steered", {"steer_id": kept.id, "text_sha256": steer.sha256}, source="api")
    kept.refresh_from_db()
    return kept


def page(session: Session, *, limit: int, cursor: str) -> Page[Steer]:
    """Newest first. Raises Invalid for a bad cursor."""
    return cursors.newest_first(Steer.objects.filter(session=session).defer("sealed_text"), limit=limit, cursor=cursor)


def bodies(steers: list[Steer]) -> dict[str, tuple[str, str]]:
    """By steer, the hashes of its call's body as the program sent it and as it went upstream."""
    calls = Call.objects.filter(id__in=[steer.call_id for steer in steers if steer.call_id])
    return {id_: (before, after) for id_, before, after in calls.values_list("steer_id", "body_sha256", "sent_sha256")}
