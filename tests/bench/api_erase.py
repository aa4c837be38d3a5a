"""What a session's deletion costs by what it held alone, beside whatever else is there: real content in a real store."""

import secrets
import time
from typing import Any

import numpy as np

from checkpoints_app.store import UNIT_BYTES

#: Content that only the session holds, in MiB, beside 8 MiB that another session holds too.
ALONE_MIB = (1, 16, 64)
SHARED_MIB = 8


def measure(times: int) -> list[dict[str, Any]]:
    from checkpoints_app.services import erase
    from sessions_app.models import Account
    from tests.support.shelf import Shelf

    shelf = Shelf(Account.objects.create(name=f"erasures {secrets.token_hex(4)}"))
    shared = _content(SHARED_MIB)
    other = shelf.save(shelf.session(), shared)
    found = []
    for mib in ALONE_MIB:
        milliseconds = []
        for _ in range(times):
            session = shelf.session()
            row = shelf.save(session, np.concatenate([shared, _content(mib)]))
            began = time.perf_counter()
            erase.erase_session(session)
            milliseconds.append((time.perf_counter() - began) * 1000)
            del shelf.contents[row.id], shelf.plans[row.id]
        found.append({"name": f"deletion of what held {mib} MiB alone", "judged": False, "milliseconds": milliseconds})
    shelf.assert_whole(other)
    return found


def _content(mib: int) -> Any:
    """Random: nothing of it is elsewhere, and it does not compress."""
    return np.frombuffer(secrets.token_bytes(mib << 20), np.uint8).reshape(-1, UNIT_BYTES)
