"""The Celery application. Settings come from Django's under the prefix CELERY_; tasks from each app's `tasks` module."""

import os
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from celery.signals import beat_init, setup_logging, task_postrun, task_prerun, worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")

app = Celery("keepstate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """A receiver here keeps Celery from replacing the JSON logging that the settings have set up."""


@task_prerun.connect
def bind_operation(task_id: str, task: Any, args: tuple[Any, ...], **_: Any) -> None:
    """A doorbell's only argument is the operation's id; a sweep has none."""
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=task.name, task_id=task_id)
    if args:
        structlog.contextvars.bind_contextvars(operation_id=str(args[0]))


@task_postrun.connect
def unbind_operation(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()


@worker_ready.connect
@beat_init.connect
def mark_ready(**_: Any) -> None:
    """Tell the supervisor, which waits for this file, that messages are read (or sent, for beat) from now on."""
    if marker := os.environ.get("KEEPSTATE_READY_MARKER"):
        Path(marker).touch()
