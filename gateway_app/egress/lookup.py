"""Names are resolved here and nowhere else: a machine has no resolver, and what was looked up is what is connected to."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from gateway_app.egress.addresses import Address

#: From a name to its addresses. Raises OSError.
Resolve = Callable[[str], list[Address]]
SECONDS = 5.0
#: A lookup holds its thread for as long as the system's resolver takes, whoever still waits: who names slow servers has a share.
THREADS = 32
OF_ACCOUNT = 8


class NotResolved(Exception):
    """The text says why."""


def by_system(host: str) -> list[Address]:
    """As the host resolves it, its own files included: what is found is judged like any answer."""
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return list(dict.fromkeys(ip_address(str(one[4][0])) for one in found))


class Lookups:
    def __init__(self, resolve: Resolve):
        self._resolve = resolve
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="egress-lookup")
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    async def find(self, account_id: str, host: str) -> list[Address]:
        """All addresses of the host, at least one. Raises NotResolved."""
        if not self._begin(account_id):
            raise NotResolved("too many names of the account are being looked up")
        future = self._pool.submit(self._resolve, host)
        future.add_done_callback(lambda _: self._end(account_id))
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(future), SECONDS)
        except TimeoutError:
            raise NotResolved(f"no answer within {SECONDS:g} seconds") from None
        except (OSError, ValueError):
            raise NotResolved("there is no such name, or its servers do not answer") from None
        if not found:
            raise NotResolved("it has none")
        return found

    def close(self) -> None:
        """Lookups that still run are left to end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, account_id: str) -> bool:
        with self._lock:
            if self._running[account_id] >= OF_ACCOUNT:
                return False
            self._running[account_id] += 1
            return True

    def _end(self, account_id: str) -> None:
        with self._lock:
            self._running[account_id] -= 1
            if not self._running[account_id]:
                del self._running[account_id]
