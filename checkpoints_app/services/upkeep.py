"""What the beat does for the store: finish erasures whose worker died, verify what is due, look for orphans.

A store that does not answer, or another worker that is at it, only ends the turn: the next one begins again.
"""

import logging

from django.conf import settings

from checkpoints_app.services import erase, host_index, orphans, scrub, storage
from checkpoints_app.store import StoreError
from sessions_app.services.locks import Busy

log = logging.getLogger(__name__)

_PACKS = 16  # of one account, in one turn
_SECONDS = 10  # of reading, in one turn: the queue has other work


def every_minute() -> None:
    for account_id in erase.unfinished_accounts():
        try:
            storage.require_present(account_id)
            done = erase.finish(account_id, limit=_PACKS, wait_seconds=0)
            log.info("an erasure was finished", extra={"account_id": account_id, **done})
        except Busy:
            log.info("an erasure goes on", extra={"account_id": account_id})
        except StoreError:
            log.warning("an erasure is not finished", extra={"account_id": account_id}, exc_info=True)
    try:
        scrub.run(budget_bytes=settings.KEEPSTATE_SCRUB_MIB << 20, seconds=_SECONDS)
    except Busy:
        log.info("a scrub goes on")
    except StoreError:
        log.warning("the store was not verified", exc_info=True)
    if scrub.behind():
        log.error("something stored was not read for longer than KEEPSTATE_SCRUB_DAYS: raise KEEPSTATE_SCRUB_MIB, or run `manage.py scrub`")


def look_for_orphans() -> None:
    try:
        orphans.sweep()
    except Busy:
        log.info("a look for orphans goes on")
    except StoreError:
        log.warning("the look for orphans decided nothing", exc_info=True)
    host_index.sweep()
