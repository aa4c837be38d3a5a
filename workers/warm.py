"""What a worker's first operation would wait for, begun as its process starts: the store's connection and probe, the hypervisor's facts,
a process that a memory image will need.
"""

import logging
import threading
from collections.abc import Callable

from django.db import connection

from workers.cache import store
from workers.cache.caching import CachingBackend
from workers.host.drivers import driver
from workers.lazy.start import spares

log = logging.getLogger(__name__)


def begin() -> None:
    """In a thread, for a pool ends a child that does not come up within seconds. What fails here is met, and told, by who needs it."""
    threading.Thread(target=_warm, name="warm", daemon=True).start()


def _warm() -> None:
    for act in (_spare, _pins):
        _try(act)
    connection.close()


def _spare() -> None:
    elsewhere = isinstance(store.backend(), CachingBackend)
    spares.keep(("checkpoints_app.store.backends.s3",) if elsewhere else ())


def _pins() -> None:
    for architecture in driver().capabilities().architectures:
        driver().pin_facts(architecture)


def _try(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.info("not ready yet", extra={"what": getattr(act, "__name__", "")}, exc_info=True)
