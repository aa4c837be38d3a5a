"""Model calls as their owner may read them: metadata alone. What was asked and answered lies sealed, for replays."""

from datetime import datetime

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Now

from gateway_app.models import Call, UsageEntry
from gateway_app.states import Served
from sessions_app.models import Session
from sessions_app.services.cursor import Page


def used_at(session: Session) -> datetime | None:
    """A call that is on its way is use now. Two looks into indexes, whatever the session has called."""
    calls = Call.objects.filter(session=session)
    going_on = calls.filter(ended__isnull=True).annotate(now=Now()).values_list("now", flat=True).first()
    return going_on or calls.order_by("-started").values_list("ended_at", flat=True).first()


def page(session: Session, *, limit: int, before: int | None = None) -> Page[Call]:
    """The session's own calls, newest first, below the tick `before`; each with `microusd`, None where it is not known. The cursor is the
    last tick.
    """
    bill = UsageEntry.objects.filter(call=OuterRef("pk"), served=Served.UPSTREAM).values("microusd")[:1]
    rows = Call.objects.filter(session=session).annotate(microusd=Subquery(bill))
    if before is not None:
        rows = rows.filter(started__lt=before)
    found = list(rows.defer("headers").order_by("-started")[: limit + 1])
    items: list[Call] = [*found[:limit]]
    return Page(items, str(items[-1].started) if len(found) > limit else "")
