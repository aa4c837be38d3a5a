"""Celery's settings. The Operation row is the job and the message only a doorbell, so nothing here is tuned for safety by the broker:
early ack, no results, nothing prefetched beyond one, and no queue that nobody reads."""

from typing import Any
from urllib.parse import quote, urlsplit

from kombu.entity import Queue

CONTROL = "control"
#: What is looked at with every sweep, and what is at its own distance, in seconds.
TURNS_OF_A_SWEEP = ("sweep", "fleet", "lifecycle", "webhooks", "accounts")
TURNS = {
    "housekeeping": 60,
    "store_upkeep": 60,
    "usage": 60,
    "retention": 60,
    "record": 3600,
    "samples": 300,
    "store_orphans": 6 * 3600,
}
LONGEST_WAIT = 3600


def broker_url(redis_url: str) -> str:
    """The broker's name of the same server: `unix:///path?db=1` is `redis+socket:///path?virtual_host=1` to it."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = next((item.removeprefix("db=") for item in parts.query.split("&") if item.startswith("db=")), "0")
    return f"redis+socket://{quote(parts.path)}?virtual_host={database}"


def settings(redis_url: str, sweep_seconds: int) -> dict[str, Any]:
    return {
        "CELERY_BROKER_URL": broker_url(redis_url),
        "CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP": True,
        "CELERY_BROKER_TRANSPORT_OPTIONS": {
            "visibility_timeout": 3600,
            "socket_keepalive": True,
            "socket_connect_timeout": 5,
            "socket_timeout": 15,  # a broker that vanished without a word: else a worker waits for it as long as the kernel does
            "health_check_interval": 25,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 2,
        },
        "CELERY_RESULT_BACKEND": None,
        "CELERY_TASK_IGNORE_RESULT": True,
        "CELERY_TASK_SERIALIZER": "json",
        "CELERY_ACCEPT_CONTENT": ["json"],
        "CELERY_TASK_ACKS_LATE": False,
        "CELERY_TASK_CREATE_MISSING_QUEUES": False,
        "CELERY_TASK_QUEUES": [Queue(CONTROL)],  # a host's own queues are added by the command that starts its worker
        "CELERY_TASK_DEFAULT_QUEUE": CONTROL,
        # A publisher gives up after about a second: the sweeper rings again for what was not heard.
        "CELERY_TASK_PUBLISH_RETRY_POLICY": {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        "CELERY_WORKER_PREFETCH_MULTIPLIER": 1,
        "CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS": False,  # a broker's blip must not kill a save
        "CELERY_WORKER_ENABLE_PREFETCH_COUNT_REDUCTION": False,
        "CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT": 45,
        "CELERY_WORKER_ENABLE_SOFT_SHUTDOWN_ON_IDLE": True,
        "CELERY_WORKER_SEND_TASK_EVENTS": False,
        "CELERY_WORKER_HIJACK_ROOT_LOGGER": False,
        "CELERY_WORKER_REDIRECT_STDOUTS": False,
        "CELERY_ENABLE_UTC": True,
        "CELERY_TIMEZONE": "UTC",
        "CELERY_BEAT_SCHEDULER": "keepstate_site.beat:Scheduler",
        "CELERY_BEAT_SCHEDULE": _schedule(sweep_seconds),
    }


def _schedule(sweep_seconds: int) -> dict[str, Any]:
    """Each turn's doorbell: one that was missed is dropped, never piled up."""
    often = dict.fromkeys(TURNS_OF_A_SWEEP, sweep_seconds)
    return {
        name: {"task": f"workers.{name}", "schedule": float(seconds), "options": {"queue": CONTROL, "expires": min(seconds, LONGEST_WAIT)}}
        for name, seconds in {**often, **TURNS}.items()
    }
