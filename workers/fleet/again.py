"""Resumes that the service asked for, after a loss or for a move, and that failed for a reason that may pass: they are asked for again, on
another host where one has room, a few times at growing distances.

What has to be done is in the rows: a failed resume has in its parameters how many tries were before it, and its `progress` says what was
made of it (`again`: the next resume's id, or a word of `Answer`), in the commit that makes it. So each failure is answered once, whoever
dies or does the same beside it. Anything else that was done to the session since, by its owner or an operator, ends it.
"""

import logging
from datetime import timedelta
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from sessions_app.errors import FleetUnavailable, HostLost, Internal, ServiceError, StartFailed
from sessions_app.models import Operation, Session
from sessions_app.services import event, recovery_policy
from sessions_app.services import session as sessions
from sessions_app.services.database import Busy, briefly
from sessions_app.states import EXCLUSIVE_KINDS, OperationKind, OperationState, ResumedBy, SessionState
from workers.operations import moving

log = logging.getLogger(__name__)
SOURCE = "fleet"

#: So long after its failure the first, the second resume and so on is asked for again; the one after the last is not.
DISTANCES = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10), timedelta(minutes=30))
#: What may be otherwise on another host, or later: the store, room, a hypervisor, a host or worker that was lost. All else is for good.
PASSING = (StartFailed.code, FleetUnavailable.code, HostLost.code, Internal.code)
#: A resume whose workers were lost in each attempt may be what ends its hosts: it is tried again after this at the earliest, and once.
SPENT = timedelta(minutes=10)
MOST_SPENT = 2
#: What failed longer ago, for no turn was taken since, is left to its owner.
RECENT = timedelta(days=1)
LOOKED_AT = 100


class Answer(StrEnum):
    """What was made of a failed resume, other than another one."""

    GIVEN_UP = "given_up"
    OVERTAKEN = "overtaken"  # something else was done to its session since


def failures() -> "QuerySet[Operation]":
    """Failed resumes of the last day that the service had asked for."""
    recent = Operation.objects.filter(kind=OperationKind.RESUME, state=OperationState.FAILED, finished_at__gt=Now() - RECENT)
    return recent.filter(parameters__by__in=[by.value for by in ResumedBy])


def unanswered() -> "QuerySet[Operation]":
    return failures().exclude(progress__has_key="again")


def try_again() -> int:
    """How many resumes were asked for. A session that was taken up and is not settled yet is looked at once it is."""
    due = unanswered().filter(_is_due()).exclude(session__runtime_state=SessionState.RESUMING).order_by("finished_at")
    return sum(_answered(operation_id) for operation_id in list(due.values_list("id", flat=True)[:LOOKED_AT]))


def _is_due() -> Q:
    """What is given up is so at once."""
    waits = [Q(_tries(number), finished_at__lt=Now() - distance) for number, distance in enumerate(DISTANCES)]
    rests = Q(attempt__lt=F("max_attempts")) | Q(finished_at__lt=Now() - SPENT)
    return ~Q(error__code__in=PASSING) | Q(parameters__tries__gte=len(DISTANCES)) | (reduce(or_, waits) & rests)


def _tries(number: int) -> Q:
    return Q(parameters__tries=number) if number else Q(parameters__tries__isnull=True)


def _answered(operation_id: str) -> bool:
    """One that cannot be answered never keeps the others."""
    try:
        return _answer(operation_id)
    except Busy:
        log.info("a failed resume is answered by the next turn", extra={"operation_id": operation_id})
        return False
    except Exception:
        log.exception("a failed resume was not answered", extra={"operation_id": operation_id})
        return False


@briefly()
def _answer(operation_id: str) -> bool:
    """Whether a resume was asked for. Rows that somebody holds are passed over: the next turn comes within seconds."""
    found = unanswered().select_related("session").filter(id=operation_id)
    failed = found.select_for_update(skip_locked=True, no_key=True, of=("self", "session")).first()
    if failed is None:
        return False
    answer: str = Answer.OVERTAKEN
    if not _is_overtaken(failed):
        resume = _resume(failed)
        answer = Answer.GIVEN_UP if resume is None else resume.id
    Operation.objects.filter(id=failed.id).update(progress={**failed.progress, "again": str(answer)})
    return answer not in list(Answer)


def _is_overtaken(failed: Operation) -> bool:
    last = Operation.objects.filter(session=failed.session, kind__in=EXCLUSIVE_KINDS).order_by("-accepted_at", "-id").first()
    return last != failed or failed.session.runtime_state not in (SessionState.PARKED, SessionState.FAILED)


def _resume(failed: Operation) -> Operation | None:
    session, error = failed.session, failed.error or {}
    if why := _why_not(failed):
        recovery_policy.give_up(session, why, str(error.get("next_action", "")), SOURCE)
        return None
    try:
        with transaction.atomic():
            resume = _ask(failed)
    except ServiceError as refusal:
        recovery_policy.give_up(session, refusal.message, refusal.next_action, SOURCE)
        return None
    recovery_policy.wait_for(session, resume)
    told = {"operation_id": resume.id, "try": resume.parameters["tries"], "of": len(DISTANCES), "reason": str(error.get("message", ""))}
    event.append(session.id, "session.resume_again", told, source=SOURCE)
    log.warning("a resume that failed is tried again", extra={"session_id": session.id, "operation_id": resume.id, "try": told["try"]})
    return resume


def _why_not(failed: Operation) -> str:
    by, error, tries = ResumedBy(failed.parameters["by"]), failed.error or {}, failed.parameters.get("tries", 0)
    said = str(error.get("message", ""))
    if error.get("code") not in PASSING:
        return said
    if not recovery_policy.wants(failed.session, by):
        return "Its owner does not want that any more."
    if tries >= len(DISTANCES):
        return f"{tries + 1} resumes have failed, the last one so: {said}"
    if _spent(failed.session) >= MOST_SPENT:
        return f"In {MOST_SPENT} resumes the workers were lost in every attempt: the machine may be what ends its hosts."
    return ""


def _spent(session: Session) -> int:
    return failures().filter(session=session, attempt__gte=F("max_attempts")).count()


def _ask(failed: Operation) -> Operation:
    asked, avoid = failed.parameters, failed.host_id
    again: dict[str, Any] = {"tries": asked.get("tries", 0) + 1}
    if asked["by"] == ResumedBy.MOVED:
        again["failed_elsewhere"] = asked.get("failed_elsewhere", False) or avoid not in ("", asked["from"])
        return moving.resume(failed.session, asked["from"], "", stored_bytes=asked["stored_bytes"], avoid=avoid, facts=again)
    return sessions.resume_unasked(failed.session, by=asked["by"], host_id=asked.get("host_id", ""), avoid=avoid, facts=again)
