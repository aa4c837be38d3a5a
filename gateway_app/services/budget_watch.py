"""Whoever nears a budget is warned once; whoever is over one is saved and parked, never killed. A turn of the beat, every few seconds.

Nothing of it is needed to keep to a budget: the data path refuses calls by itself. A session that its owner resumes without a higher limit
stays awake, and its calls stay refused: parking it again would keep its owner from his files.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models.functions import Now

from gateway_app.models import SessionBudget
from gateway_app.services.budget import WARN_PERCENT
from sessions_app.errors import ServiceError
from sessions_app.models import Session
from sessions_app.services import event, lifecycle, record
from sessions_app.states import RecordKind, SessionState

SOURCE = "budget"
BATCH = 20
#: A parking that was asked for and did not come about (its save failed) is asked for again after this.
RETRY = timedelta(minutes=5)

#: Running sessions are few beside all: the index of states leads here. What was spent of what limit, the worst one's percent.
_DUE = """
SELECT session.id, part.what, part.spent, part.most
FROM sessions_app_session AS session
JOIN gateway_app_sessionbudget AS own ON own.session_id = session.id
LEFT JOIN gateway_app_accountbudget AS whole ON whole.account_id = session.account_id
CROSS JOIN LATERAL (
  SELECT what, spent, most FROM (VALUES
    ('session_tokens', own.spent_tokens, session.budget_tokens), ('session_microusd', own.spent_microusd, own.microusd),
    ('account_tokens', whole.spent_tokens, whole.tokens), ('account_microusd', whole.spent_microusd, whole.microusd)
  ) AS limits(what, spent, most)
  WHERE most IS NOT NULL AND spent IS NOT NULL ORDER BY spent::numeric / greatest(most, 1) DESC LIMIT 1
) AS part
WHERE session.runtime_state = 'running' AND own.billed_calls > 0 AND (
  (own.warned_at IS NULL AND part.spent::numeric * 100 >= part.most::numeric * %(warn)s)
  OR (part.spent >= part.most AND (own.exhausted_at IS NULL
      OR (own.exhausted_epoch = session.epoch AND own.exhausted_at < statement_timestamp() - make_interval(secs => %(retry)s))))
) AND (%(session)s::text IS NULL OR session.id = %(session)s)
LIMIT %(batch)s
"""


@dataclass(frozen=True)
class Reached:
    """`what`: session_tokens, session_microusd, account_tokens or account_microusd."""

    session_id: str
    what: str
    spent: int
    limit: int

    @property
    def over(self) -> bool:
        return self.spent >= self.limit


def run_due() -> int:
    """A few at a time; two that run at once warn and park none twice. Returns how many were warned or are being parked."""
    return sum(_act(reached.session_id) for reached in _reached(None))


def _reached(session_id: str | None) -> list[Reached]:
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"warn": WARN_PERCENT, "retry": RETRY.total_seconds(), "session": session_id, "batch": BATCH})
        return [Reached(*row) for row in cursor.fetchall()]


@transaction.atomic
def _act(session_id: str) -> bool:
    """A session that somebody holds is left for the next turn; one that was found is looked at again under its lock."""
    session = Session.objects.select_for_update(no_key=True, skip_locked=True).filter(id=session_id).first()
    found = _reached(session_id) if session is not None and session.runtime_state == SessionState.RUNNING else []
    if session is None or not found:
        return False
    [reached] = found
    mine = SessionBudget.objects.filter(session=session)
    if mine.filter(warned_at__isnull=True).update(warned_at=Now()):
        _tell(session, "session.budget_warning", reached)
    if not reached.over:
        return True
    return _park(session, reached)


def _tell(session: Session, type_: str, reached: Reached) -> None:
    """In its history, from where webhooks tell of it, and in the service record."""
    facts = {"what": reached.what, "spent": reached.spent, "limit": reached.limit}
    event.append(session.id, type_, facts, source=SOURCE)
    record.write(RecordKind.LIFECYCLE, type_, account_id=session.account_id, session_id=session.id, actor=SOURCE, facts=facts)


def _park(session: Session, reached: Reached) -> bool:
    """By an ordinary save. While something else has the session nothing is marked: the next turn asks again."""
    try:
        lifecycle.ask_save(session, stop=True, reason=f"{reached.what} spent", by=lifecycle.BUDGET)
    except ServiceError:
        return False
    _tell(session, "session.budget_exhausted", reached)
    SessionBudget.objects.filter(session=session).update(exhausted_at=Now(), exhausted_epoch=session.epoch)
    return True
