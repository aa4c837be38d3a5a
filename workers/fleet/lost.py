"""Hosts that are lost: of which neither the workers nor the gateway were heard of for KEEPSTATE_HOST_LOST_SECONDS, by the database's clock.

marked     the host is lost, from the moment of that commit on. It takes nothing from anybody yet
taken      each of its sessions, in a commit of its own (workers/fleet/taken.py): a death in between leaves the rest for the next turn
back       a host that is heard of after it was marked is lost no more. What was taken stays taken: its epoch is over, and the host ends it;
           what was not is still there, and runs on
Two turns at once do no harm: every step is guarded by what it changes.
"""

import logging

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from gateway_app.models import GatewayProcess
from gateway_app.services import process
from sessions_app.errors import Conflict
from sessions_app.services import dispatch
from sessions_app.services.by_operator import write
from sessions_app.services.database import Busy
from workers.fleet import taken, watch
from workers.host import liveness
from workers.models import Host

log = logging.getLogger(__name__)

#: Sessions that one turn takes at most; the next one comes within seconds.
BATCH = 200


def take_from_lost() -> int:
    """How many sessions were taken from hosts that are lost."""
    _heard_again()
    if watch.look() and liveness.alive().exists():  # where nobody at all is heard of, it is likelier that we do not hear
        _mark()
    done = 0
    hosts = list(Host.objects.filter(lost_at__isnull=False, retired_at=None).order_by("lost_at").values_list("id", flat=True))
    for host_id in hosts:
        done += _take(host_id, BATCH - done)
    for host_id in hosts:  # last: a gateway that stands still in the middle of a commit holds the rows of its calls
        _end_calls(host_id)
    return done


@transaction.atomic
def declare(host: Host, by: str) -> None:
    """An operator knows that the host is gone, before its time or although its gateway answers. The next turn takes its sessions.

    Raises Conflict, and nothing was done, for one that is lost or retired already, or whose workers are heard of: that one is drained.
    """
    silent = Host.objects.filter(id=host.id, lost_at=None, retired_at=None).exclude(liveness.is_fresh())
    if not silent.update(lost_at=Now()):
        raise Conflict(
            "The host is lost or retired already, or its workers are heard of. Nothing was done.",
            next_action="Drain a host that is heard of; stop the workers of one that must not be.",
        )
    write("lose", by, account_id="", host_id=host.id)
    dispatch.ring_control_once_committed(dispatch.FLEET)


def _heard_again() -> None:
    for host_id in _told(Host.objects.filter(lost_at__isnull=False, heartbeat_at__gt=F("lost_at")), lost_at=None):
        log.warning("a host that was lost is heard of again", extra={"host_id": host_id})


@transaction.atomic
def _told(hosts: "QuerySet[Host]", *, lost_at: Now | None) -> list[str]:
    """Those of the hosts whose rows nobody holds: a worker that stands still in the middle of a commit keeps no other host from it."""
    free = list(hosts.select_for_update(skip_locked=True, no_key=True, of=("self",)).values_list("id", flat=True))
    Host.objects.filter(id__in=free).update(lost_at=lost_at)
    return free


def _unheard() -> "QuerySet[Host]":
    since = Now() - liveness.lost_after()
    answering = GatewayProcess.objects.filter(seen_at__gt=since).values("host_id")
    silent = Host.objects.filter(heartbeat_at__lt=since, lost_at=None, retired_at=None).exclude(boot_id="")  # that one never started
    return silent.exclude(resting_until__gt=Now()).exclude(id__in=answering)


def _mark() -> None:
    for host_id in _told(_unheard(), lost_at=Now()):
        log.error("a host is lost: its sessions go on elsewhere from their last checkpoints", extra={"host_id": host_id})


def _end_calls(host_id: str) -> None:
    """What its gateways were reading is read by nobody: the machines that go on elsewhere need not wait for it."""
    silent = GatewayProcess.objects.filter(host_id=host_id, seen_at__lt=Now() - liveness.lost_after())
    for name in silent.values_list("name", flat=True):
        log.info("calls of a lost host's gateway ended", extra={"host_id": host_id, "calls_unknown": process.gone(name)})


def _take(host_id: str, most: int) -> int:
    """One session that cannot be taken, for somebody holds it, never keeps the others; the next turn tries again."""
    done = 0
    for session_id in taken.there(host_id)[:most]:
        try:
            done += taken.take(session_id, host_id)
        except Busy:
            log.info("a session of a lost host is held", extra={"host_id": host_id, "session_id": session_id})
        except Exception:
            log.exception("a session of a lost host was not taken", extra={"host_id": host_id, "session_id": session_id})
    return done
