"""A gateway that dies of SIGKILL at a named step, or whenever it is killed: a fork of the test's process, which costs next to nothing."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from gateway_app.proxy import call_rows, rows
from gateway_app.proxy.channel import Channel
from gateway_app.proxy.server import gateway, listen
from tests.integration.gateway.house import provided

replace = setattr  # of what belongs to the product, in this process alone

#: By step: the statement of the data path, and whether the process dies before or after it.
STATEMENTS = {
    "before_the_row": (call_rows, "open_call", "before"),
    "row_committed": (call_rows, "open_call", "after"),
    "before_the_end": (call_rows, "end_call", "before"),
    "end_committed": (call_rows, "end_call", "after"),
    "taken_from_window": (rows, "take_from_window", "after"),
    "replay_in_ledger": (rows, "served_again", "after"),
}


def fork(listening: socket.socket, who: Channel, provider: str, step: str) -> int:
    """Serves the channel on the socket until it dies. A step that is none of the statements is waited for in vain. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            if step in STATEMENTS:
                _die_at(*STATEMENTS[step])
            asyncio.run(_serve(listening, who, provider))
        finally:
            os._exit(0)
    listening.close()
    return pid


def _die_at(module: ModuleType, name: str, when: str) -> None:
    sound: Callable[..., Awaitable[Any]] = getattr(module, name)

    async def deadly(*arguments: Any) -> Any:
        if when == "after":
            await sound(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    replace(module, name, deadly)


async def _serve(listening: socket.socket, who: Channel, provider: str) -> None:
    async with gateway(provided(provider), drain_seconds=0) as one:
        await listen(one, who, listening)
        await asyncio.Event().wait()
