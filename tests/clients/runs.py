"""Runs of one client: each with a session, a channel and a bill of its own; gateway and fake provider are in this process."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from asgiref.sync import sync_to_async

from gateway_app.proxy import answer, channel
from gateway_app.proxy.channel import Channel
from keepstate_site.provider.script import Act
from sessions_app.models import Account
from tests.clients.clients import Client, Place
from tests.clients.cutter import cutting
from tests.clients.judge import Run
from tests.integration.gateway.house import PROVIDER_KEY, SECRET, House, house, open_door
from tests.integration.gateway.relay import relay_to
from tests.support.calling import calling_session

ANSWER = "Hello from the fake provider."  # five words
#: Between two events of the provider.
PACE_SECONDS = 0.01
RUN_SECONDS = 240
#: Where keep-alives are what is tried: so often one, while the provider's events come so slowly.
PING_SECONDS, PING_PACE = 0.1, 0.5
PINGS_PER_SECOND_OF_THE_PRODUCT = answer.PING_SECONDS


@dataclass(frozen=True)
class Runs:
    """`pinged`: slowly, with keep-alives between all events, and not cut."""

    uncut: Run
    pinged: Run
    cut: list[Run]


async def runs_of(client: Client, program: Path, account: Account, *, with_relay: bool) -> Runs:
    async with house(account) as at:
        bench = _Bench(at, client, program, account, with_relay)
        uncut = await bench.run(None)
        answer.PING_SECONDS = PING_SECONDS
        try:
            pinged = await bench.run(None, pace=PING_PACE)
        finally:
            answer.PING_SECONDS = PINGS_PER_SECOND_OF_THE_PRODUCT
        return Runs(uncut, pinged, [await bench.run(cut) for cut in range(client.events)])


@dataclass
class _Bench:
    at: House
    client: Client
    program: Path
    account: Account
    with_relay: bool

    async def run(self, cut: int | None, *, pace: float = PACE_SECONDS) -> Run:
        session = await sync_to_async(calling_session)(self.account, PROVIDER_KEY)
        who = Channel(self.account.id, session.id, session.epoch, frozenset({session.id}))
        door = await open_door(self.at.gate, who, self.at.doors)
        self.at.fake.bill.lines.clear()
        self.at.fake.script.clear()
        self.at.fake.script.default = Act(say=ANSWER, pace_seconds=pace)
        ending = b"\r\n\r\n" if self.client.api == "gemini" else b"\n\n"
        async with cutting(door, cut, ending) as line, self._way(line.url) as url:
            home = Path(tempfile.mkdtemp(prefix="keepstate-client-"))
            for name, text in self.client.files.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text)
            try:
                code, output = await self._asked(Place(url, channel.credential(session.id, SECRET), home))
            finally:
                shutil.rmtree(home, ignore_errors=True)
            made = cut is None or line.made
        run = Run(cut, self.at.fake.bill.told()["billed_calls"], output, code, made)
        print(f"  cut {cut}{'' if made else ' NOT MADE'}: code {code}, {run.calls} calls, {output[-160:]!r}", file=sys.stderr, flush=True)
        return run

    @asynccontextmanager
    async def _way(self, gateway: str) -> AsyncIterator[str]:
        if not self.with_relay:
            yield gateway
            return
        async with relay_to(gateway) as url:
            yield url

    async def _asked(self, place: Place) -> tuple[int, str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(place.home), "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            *self.client.command(self.program, place),
            env=environment | self.client.environment(place),
            cwd=place.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(RUN_SECONDS):
                output, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return -1, ""
        if process.returncode:
            print(errors.decode("utf-8", "replace")[-600:], file=sys.stderr)
        return process.returncode or 0, self.client.said(output.decode("utf-8", "replace"))
