"""The fake provider beside a stack: on a port of loopback, in a thread of the test's process, with its bill at hand."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from keepstate_site.provider.app import Provider
from keepstate_site.provider.script import Act

_SECONDS = 10


@dataclass
class Beside:
    """`fake` is touched in its own loop alone."""

    fake: Provider = field(default_factory=Provider)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    url: str = ""

    def act(self, **fate: Any) -> None:
        self._do(lambda: self.fake.script.add([Act.of(fate)]))

    def release(self) -> None:
        """What is held goes on."""
        self._do(self.fake.release)

    def forget(self) -> None:
        """An empty bill, and nothing to do wrong."""
        self._do(self.fake.forget)

    @property
    def bill(self) -> dict[str, Any]:
        found: dict[str, Any] = self._do(self.fake.bill.told)
        return found

    def _do(self, what: Any) -> Any:
        async def there() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(_SECONDS)


@contextmanager
def provider() -> Iterator[Beside]:
    beside = Beside()
    thread = threading.Thread(target=beside.loop.run_forever, name="fake provider", daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(_serve(beside), beside.loop).result(_SECONDS)
    try:
        yield beside
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), beside.loop).result(_SECONDS)
        beside.loop.call_soon_threadsafe(beside.loop.stop)
        thread.join(_SECONDS)


async def _serve(beside: Beside) -> web.AppRunner:
    runner = web.AppRunner(beside.fake.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    beside.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner
