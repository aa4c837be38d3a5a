"""The only place that knows Celery's task names and queues.

Ringing is best effort: a doorbell that is lost, late or doubled is harmless, because the row is the job and the sweeper rings again.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from celery import current_app
from django.db import transaction
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.exceptions import ChannelError
from kombu.pools import producers

from sessions_app.models import Operation
from sessions_app.services.database import give_back_connection
from sessions_app.services.silence import Silence

log = logging.getLogger(__name__)

RUN_OPERATION = "workers.run_operation"
OBSERVE_HOST = "workers.observe_host"
SWEEP = "workers.sweep"
FLEET = "workers.fleet"
LIFECYCLE = "workers.lifecycle"
ACCOUNTS = "workers.accounts"
STORE_UPKEEP = "workers.store_upkeep"
STORE_ORPHANS = "workers.store_orphans"
SAMPLES = "workers.samples"
WEBHOOKS = "workers.webhooks"
HOUSEKEEPING = "workers.housekeeping"
USAGE = "workers.usage"
RETENTION = "workers.retention"
RECORD = "workers.record"

CONTROL_QUEUE = "control"
#: In the row of an operation that has no host yet: nobody reads it and nobody rings it.
WAITING_QUEUE = "waiting"
#: How long a request waits for the broker, at most twice (a connection that has gone stale is opened again).
ANSWER_SECONDS = 1
#: A doorbell nobody heard for this long is dropped from the broker; the sweeper has rung again by then.
DOORBELL_SECONDS = 60
#: A message that is not read is not removed from the broker either, for only its reader sees that it has expired: what is rung again and
#: again is not rung while so many wait; of work, that each row has its own bell, more.
UNREAD_DOORBELLS = 20
UNREAD_WORK = 500


def host_queue(host_id: str) -> str:
    """Work on a machine that lives on that host."""
    return f"host.{host_id}"


def pin_queue(pin_digest: str) -> str:
    """What an earlier release has asked for, of any host with that pin. Nothing new is put there (workers/fleet/waiting.py)."""
    return f"pin.{pin_digest[:16]}"


def io_queue(host_id: str) -> str:
    """Waiting work of that host: commands in guests, observation."""
    return f"io.{host_id}"


def ring(operation: Operation) -> None:
    """Ring once the row is committed; a broker that is down loses nothing."""
    transaction.on_commit(partial(_send, RUN_OPERATION, operation.queue, operation.id), robust=True)


def ring_again(operation: Operation) -> None:
    """Ring for what nobody has heard; a worker that is alive and deaf does not fill the broker."""
    _send(RUN_OPERATION, operation.queue, operation.id, unread=UNREAD_WORK)


def ring_control(task: str, *, unread: int = UNREAD_DOORBELLS, expires: float = DOORBELL_SECONDS) -> None:
    """Ask for a task of the control queue now. A queue that is not read gets no more than a few."""
    _send(task, CONTROL_QUEUE, unread=unread, expires=expires)


def ring_control_once_committed(task: str) -> None:
    transaction.on_commit(partial(ring_control, task), robust=True)


def ring_host(host_id: str) -> None:
    """Ask a host to look after itself. A host that does not read its doorbells is not given more of them than a few."""
    _send(OBSERVE_HOST, io_queue(host_id), unread=UNREAD_DOORBELLS)


def ring_retention() -> None:
    """Ask for a turn of expiry and erasure now, once the caller's transaction is committed."""
    transaction.on_commit(partial(_send, RETENTION, CONTROL_QUEUE), robust=True)


def _send(task: str, queue: str, *arguments: str, unread: int | None = None, expires: float = DOORBELL_SECONDS) -> None:
    """`unread`: not while so many messages wait there. A broker that hangs is done without for some seconds, whoever rings."""
    if _silence.lasts():
        return
    give_back_connection()  # a broker that hesitates must not keep others from the database
    try:
        with producers[_broker()].acquire(block=True, timeout=ANSWER_SECONDS) as producer:
            if unread is None or _waiting(producer.channel, queue) < unread:
                current_app.send_task(task, args=arguments, queue=Queue(queue), expires=expires, retry=False, producer=producer)
    except Exception as error:  # any broker fault: the sweeper is the outbox
        log.warning("doorbell not rung, the sweeper will", extra={"task": task, "queue": queue, "reason": repr(error)})
        _silence.begin(error)
    else:
        _silence.end()


def _waiting(channel: Any, queue: str) -> int:
    """How many messages nobody has read yet."""
    try:
        return int(channel.queue_declare(queue, passive=True).message_count)
    except ChannelError:  # an empty queue is none to the broker
        return 0


def unread(queues: Iterable[str]) -> int | None:
    """How many messages wait in these queues, by a connection of its own; None where the broker does not answer."""
    try:
        with _broker() as asked:
            return sum(_waiting(asked.default_channel, queue) for queue in queues)
    except Exception:  # whatever it is: nothing is known of the queues then
        return None


def answers() -> bool:
    """Whether the broker answers now."""
    if _silence.lasts():
        return False
    give_back_connection()
    try:
        with producers[_broker()].acquire(block=True, timeout=ANSWER_SECONDS) as producer:
            producer.connection.ensure_connection(max_retries=1, timeout=ANSWER_SECONDS)
            producer.channel.client.ping()
    except Exception as error:
        _silence.begin(error)
        return False
    _silence.end()
    return True


def _broker() -> Connection:
    """The broker, asked once and briefly. Celery's own way to it waits out several retries, and the request with it."""
    options = {**current_app.conf.broker_transport_options, "max_retries": 0, "socket_connect_timeout": ANSWER_SECONDS}
    options["socket_timeout"] = ANSWER_SECONDS
    connection: Connection = current_app.connection_for_write(transport_options=options)
    return connection


_silence = Silence("the broker does not answer: doorbells are not rung, the sweeper will")
