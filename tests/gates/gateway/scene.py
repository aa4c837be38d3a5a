"""A machine whose gateway is a process that dies, the provider beside it, and the gateway that comes after it."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from asgiref.sync import sync_to_async
from django.db.models import F

from gateway_app.models import Call, UsageEntry
from gateway_app.proxy.answer import Frame
from gateway_app.proxy.server import gateway
from gateway_app.services import open_calls, window
from gateway_app.states import CallState, Served
from sessions_app.models import Account, Session
from tests.gates.gateway import victim
from tests.integration.gateway.house import STREAM, Got, House, open_door, provided
from tests.integration.gateway.house import run as in_house
from tests.support.fleet import checkpoint_row

END = b"message_stop"


@dataclass
class Scene:
    at: House
    pid: int = 0  # of a gateway that is to die

    def dying(self, step: str, epoch: int = 1) -> str:
        """The door of a gateway of its own process, which dies at the step."""
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        self.pid = victim.fork(listening, replace(self.at.channel, epoch=epoch), self.at.provider, step)
        return f"http://127.0.0.1:{port}"

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    async def died(self) -> None:
        """Returns when it has; asserts that it was killed, and not otherwise ended."""
        pid, self.pid = self.pid, 0
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert os.WIFSIGNALED(status), "the gateway was killed at the step"

    async def tick(self) -> int:
        """A save's, as of now."""
        return (await sync_to_async(window.watermark)(self.at.session.id))["calls"]

    async def goes_on(self, tick: int) -> None:
        """The machine goes on from a save with that tick: a new epoch, with its window."""
        await sync_to_async(goes_on)(self.at.session, tick)

    @asynccontextmanager
    async def successor(self, epoch: int = 1) -> AsyncIterator[str]:
        """The door of the gateway that comes after it. What the beat does a minute later is done before."""
        await sync_to_async(_a_minute_later)()
        doors: list[Any] = []
        async with gateway(provided(self.at.provider), drain_seconds=5) as one:
            yield await open_door(one, replace(self.at.channel, epoch=epoch), doors)
            for door in doors:
                await door.close()


def run(account: Account, act: Callable[[Scene], Awaitable[object]]) -> None:
    async def all_of_it(at: House) -> None:
        scene = Scene(at)
        try:
            await act(scene)
        finally:
            if scene.pid:
                scene.kill()
                await asyncio.to_thread(os.waitpid, scene.pid, 0)

    in_house(account, all_of_it)


def goes_on(session: Session, tick: int, source_epoch: int = 1) -> None:
    """The next epoch of the session, from a save of that tick and epoch."""
    point = checkpoint_row(session, watermarks={"calls": tick}, source_epoch=source_epoch)
    Session.objects.filter(id=session.id).update(epoch=F("epoch") + 1)
    session.refresh_from_db()
    window.open_epoch(session, point.id)


def _a_minute_later() -> None:
    Call.objects.filter(state=CallState.OPEN).update(pump_seen_at=F("pump_seen_at") - 2 * open_calls.SILENT)
    open_calls.end_silent()


async def asked(at: House, url: str, body: Any = STREAM, *, relay: str = "", offset: int = 0) -> Got:
    """A program's request, or a relay's. One whose connection breaks before an answer has the status 0."""
    headers = {"X_KeepState_Relay": relay, "X_KeepState_Offset": str(offset)} if relay else {}
    try:
        return await at.ask(body, url=url, **headers)
    except aiohttp.ClientError:
        return Got(0, {}, b"", whole=False)


@dataclass(frozen=True)
class Relayed:
    """What a relay was sent: the answer's bytes, and how it ended; None if the connection broke."""

    data: bytes
    end: Frame | None


def relayed(got: Got) -> Relayed:
    data, taken, end = bytearray(), got.body, None
    while len(taken) >= 5 and len(taken) >= 5 + int.from_bytes(taken[1:5], "big"):
        kind, length = Frame(taken[0]), int.from_bytes(taken[1:5], "big")
        if kind == Frame.DATA:
            data += taken[5 : 5 + length]
        elif kind in (Frame.END, Frame.CUT):
            end = kind
        taken = taken[5 + length :]
    return Relayed(bytes(data), end)


@sync_to_async
def calls() -> list[tuple[str, int | None]]:
    """Each with its output tokens, in the order of their starts."""
    return list(Call.objects.order_by("started").values_list("state", "output_tokens"))


@sync_to_async
def bills() -> list[int | None]:
    """Of every line that is billed: its output tokens."""
    return list(UsageEntry.objects.filter(billed=True, served=Served.UPSTREAM).order_by("id").values_list("output_tokens", flat=True))
