"""`manage.py run_worker vm|io|control`: a Celery worker of this host on the queues of its kind."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from celery import current_app
from celery.signals import worker_process_init, worker_shutting_down
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from kombu.entity import Queue

from checkpoints_app.services import storage_s3
from workers import deaf, turns, warm
from workers.host import queues
from workers.host.claim import REFUSED, HostRefused
from workers.host.heartbeat import Heartbeat
from workers.host.identity import host_id
from workers.host.register import register, register_images
from workers.operations.leftovers import sweep_leftovers
from workers.relay.server import serve_relay

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerKind:
    pool: str
    slots: int
    queues: Callable[[], list[str]]


KINDS: Mapping[str, WorkerKind] = {
    "vm": WorkerKind("prefork", 2, queues.vm_queues),  # each slot supervises one machine's boot, save or resume
    "io": WorkerKind("threads", 8, queues.io_queues),  # waits for guests
    "control": WorkerKind("prefork", 2, queues.control_queues),  # one may be at the store for long, the other keeps sweeping
}


def _warm(**_: Any) -> None:
    warm.begin()


def _end_what_was_left() -> None:
    """A host that lost its id while it stood still, or was retired, may still run machines whose sessions went on elsewhere, and is told by
    no doorbell to end them.
    """
    try:
        sweep_leftovers()
    except Exception:  # it was refused all the same, and says why
        log.exception("what this host still runs of epochs that were left was not ended")


class Command(BaseCommand):
    requires_system_checks = ("security",)  # those of pages and models load what no worker uses; a stack makes them as it is prepared
    help = "Run a worker of this host: vm (boots, saves, resumes), io (commands in guests, observation) or control (sweeps)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=sorted(KINDS))
        parser.add_argument("--slots", type=int, help="how many operations at once (default: by kind)")

    def handle(self, *args: Any, **options: Any) -> None:
        kind = KINDS[options["kind"]]
        if options["kind"] == "control":
            turns.expect()
            self._serve(kind, options)
            return
        try:
            register(vm=options["kind"] == "vm")
        except HostRefused as refusal:
            _end_what_was_left()
            raise CommandError(str(refusal), returncode=REFUSED) from refusal
        register_images()
        storage_s3.be_patient()
        if options["kind"] == "io":
            serve_relay()
        if options["kind"] == "vm":
            worker_process_init.connect(_warm, weak=False)
        self._serve_beating(kind, options)

    def _serve_beating(self, kind: WorkerKind, options: dict[str, Any]) -> None:
        """The heartbeat goes on until the work of a stop in order has ended, and says goodbye then."""
        heartbeat = Heartbeat(vm=options["kind"] == "vm")
        worker_shutting_down.connect(lambda **_: heartbeat.leave(), weak=False)
        heartbeat.start()
        try:
            self._serve(kind, options)
        finally:
            heartbeat.stop()
            if heartbeat.refused:
                _end_what_was_left()
                raise CommandError(heartbeat.refused, returncode=REFUSED)

    def _serve(self, kind: WorkerKind, options: dict[str, Any]) -> None:
        names = kind.queues()
        connections.close_all()  # nothing of the database is shared with the pool's children
        current_app.conf.task_queues = [Queue(name) for name in names]
        slots = options["slots"] or kind.slots
        deaf.watch(names, slots)
        current_app.worker_main(
            [
                "worker",
                f"--pool={kind.pool}",
                f"--concurrency={slots}",
                f"--queues={','.join(names)}",
                f"--hostname={options['kind']}@{host_id()}",
                "--without-gossip",
                "--without-mingle",
                f"--loglevel={os.environ.get('KEEPSTATE_LOG_LEVEL', 'INFO')}",
            ]
        )
