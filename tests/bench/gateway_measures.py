"""What the bench of the gateway measures, in the stack's environment: each form of a call, by each way that it may take."""

import json
import os
import socket
import statistics
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gateway_app.proxy import channel
from gateway_app.proxy.request import OFFSET, RELAY
from gateway_app.proxy.settings import proxy_settings
from tests.bench import gateway_peer, gateway_windows
from tests.bench.gateway_load import Answer, Caller, Request, Took, burst, request
from tests.support.gateway_process import Running, fake_provider, gateway_of

WARM, CALLS, AT_ONCE = 15, 25, 32
#: Calls of a burst. The peer takes long over them: it has one burst of fewer.
BURST = {"gateway": 600, "provider": 600, "litellm": 64}
WORDS, OPEN, OPEN_AT_A_TIME = 94, 200, 50


@dataclass(frozen=True)
class Form:
    """`peer_model`: the model's name at the peer."""

    api: str
    name: str
    path: str
    peer_model: str
    streamed: bool

    @property
    def title(self) -> str:
        return f"{self.name}, {'stream' if self.streamed else 'JSON'}"

    def body(self, model: str) -> bytes:
        told = {"model": model, "max_tokens": 1000, "messages": [{"role": "user", "content": "Go on. " * 180}]}
        return json.dumps(told | ({"stream": True} if self.streamed else {})).encode()


FORMS = tuple(
    Form(api, name, path, peer_model, streamed)
    for api, name, path, peer_model in (
        ("anthropic", "Messages", "/v1/messages", "fake-claude"),
        ("chat", "Chat Completions", "/v1/chat/completions", "fake-model"),
    )
    for streamed in (False, True)
)


@dataclass(frozen=True)
class House:
    provider: Running
    ways: Mapping[str, Running]  # the provider itself, the gateway, and the peer where it is measured
    session: str
    credential: str

    def asked(self, way: str, form: Form, **headers: str) -> Request:
        sent = {"anthropic-version": "2023-06-01", "x-api-key": self.credential, "authorization": f"Bearer {self.credential}"}
        body = form.body(form.peer_model if way == "litellm" else "fake-model")
        return request(self.ways[way].url, form.path, body, {**sent, **headers})

    def script(self, **default: Any) -> None:
        told = urllib.request.Request(f"{self.provider.url}/fake/script", json.dumps({"default": default}).encode(), method="POST")
        urllib.request.urlopen(told, timeout=30).close()

    def billed(self) -> int:
        with urllib.request.urlopen(f"{self.provider.url}/fake/bill", timeout=60) as answer:
            calls: int = json.load(answer)["calls"]
            return calls


def measure(rounds: int, bursts: int, peer: Path | None, directory: Path) -> dict[str, dict[str, Any]]:
    account, session = gateway_windows.prepared()
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        provider = stack.enter_context(fake_provider(directory / "provider.log"))
        gateway = stack.enter_context(gateway_of(account, session, provider.url, directory / "gateway.log"))
        ways = {"provider": provider, "gateway": gateway}
        if peer is not None:
            ways["litellm"] = stack.enter_context(gateway_peer.serving(peer, provider.url, directory))
        house = House(provider, ways, session, channel.credential(session, proxy_settings().secrets[0]))
        house.script(words=WORDS)
        for form in FORMS:
            print(f"{form.title} ...", flush=True)
            found[form.title] = _measured(house, form, rounds, bursts)
        streams = next(form for form in FORMS if form.streamed)
        house.script(words=WORDS, cut="hang", events=50)
        found[streams.title]["memory"] = {way: _memory(house, way, streams) for way in ways if way != "provider"}
    return found


def _measured(house: House, form: Form, rounds: int, bursts: int) -> dict[str, Any]:
    medians = _one_after_another(house, form, rounds)
    added = {way: _added(taken, medians["provider"]) for way, taken in medians.items() if way != "provider"}
    counts = {way: 1 if way == "litellm" else bursts for way in house.ways}
    at_once = {way: [_burst(house, way, form) for _ in range(count)] for way, count in counts.items()}
    again = {"replayed": _unbilled(house, lambda: _replayed(house, form, rounds))}
    if form.streamed:
        again["continued"] = _continued(house, form, rounds)
    peer = added.get("litellm", {})
    return {"transport": "stream" if form.streamed else "json", "added": added["gateway"], "added_peer": peer, "bursts": at_once, **again}


def _burst(house: House, way: str, form: Form) -> dict[str, Any]:
    """With the processor time of the way's process for a call, in milliseconds: that hardly changes when something else runs."""
    before = _processor_seconds(house.ways[way].pid)
    found = asdict(burst(house.asked(way, form), BURST[way], AT_ONCE))
    return {**found, "processor": (_processor_seconds(house.ways[way].pid) - before) * 1000 / BURST[way]}


def _one_after_another(house: House, form: Form, rounds: int) -> dict[str, list[Took]]:
    """Each round's medians, by way."""
    medians: dict[str, list[Took]] = {way: [] for way in house.ways}
    with ExitStack() as stack:
        asked = {way: house.asked(way, form) for way in house.ways}
        callers = {way: stack.enter_context(Caller(one.host, one.port)) for way, one in asked.items()}
        for way, caller in callers.items():
            for _ in range(WARM):
                caller.call(asked[way])
        for _ in range(rounds):
            for way, caller in callers.items():
                took = [caller.call(asked[way]) for _ in range(CALLS)]
                medians[way].append(Took(statistics.median(one.first for one in took), statistics.median(one.total for one in took)))
    return medians


def _added(way: list[Took], bare: list[Took]) -> dict[str, list[float]]:
    pairs = list(zip(way, bare, strict=True))
    return {"first": [one.first - than.first for one, than in pairs], "total": [one.total - than.total for one, than in pairs]}


def _unbilled(house: House, measured: Callable[[], list[float]]) -> list[float]:
    """RuntimeError if the provider heard of it: then it was no answer out of the record."""
    before = house.billed()
    found = measured()
    if house.billed() != before:
        raise RuntimeError("calls that should have been answered out of the record reached the provider")
    return found


def _replayed(house: House, form: Form, rounds: int) -> list[float]:
    """Milliseconds to the last byte. Each call takes one entry of a window of calls that were made before."""
    count = WARM + rounds * CALLS
    gateway_windows.opened(house.session, form.api, form.streamed, count)
    return _calls(house.asked("gateway", form), count)


def _continued(house: House, form: Form, rounds: int) -> list[float]:
    """A relay's call, asked for again from its middle."""
    named = f"bench-{form.api}"
    with Caller(*_address(house.asked("gateway", form))) as caller:
        caller.call(house.asked("gateway", form, **{RELAY: named}))
    again = house.asked("gateway", form, **{RELAY: named, OFFSET: "5000"})
    return _unbilled(house, lambda: _calls(again, WARM + rounds * CALLS))


def _calls(asked: Request, count: int) -> list[float]:
    with Caller(*_address(asked)) as caller:
        return [caller.call(asked).total for _ in range(count)][WARM:]


def _address(asked: Request) -> tuple[str, int]:
    return asked.host, asked.port


def _memory(house: House, way: str, form: Form) -> list[float]:
    """KiB by which the process grew for each stream, with more and more of them open."""
    asked, pid = house.asked(way, form), house.ways[way].pid
    found: list[float] = []
    with ExitStack() as stack:
        stack.enter_context(_open(asked))
        for _ in range(OPEN // OPEN_AT_A_TIME):
            before = _resident(pid)
            for _ in range(OPEN_AT_A_TIME):
                stack.enter_context(_open(asked))
            found.append((_resident(pid) - before) / OPEN_AT_A_TIME)
    return found


def _open(asked: Request) -> socket.socket:
    """A stream of which something has come, and the rest does not."""
    connection = socket.create_connection(_address(asked), timeout=60)
    connection.sendall(asked.bytes_)
    answer = Answer()
    while not answer.first:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the answer broke off")
        answer.feed(data)
    return connection


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))
