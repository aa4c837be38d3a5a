"""Programs in a guest that call a model as real clients do, and what they had of the answer."""

import json
from dataclasses import dataclass
from typing import Any

from gateway_app.states import Api
from gateway_app.streams.kinds import KINDS
from keepstate_site.provider import answers
from keepstate_site.provider.answers import Wanted
from tests.gates.room import Room, Subject

DIRECTLY = "http://10.0.2.2"
#: Tokens of one of the calls, its answer with it: as many as the first machine that was frozen in mid-call had in its conversation.
TOKENS, WORDS = 31_486, 40
_PING = KINDS[Api.ANTHROPIC].ping
SECRET = "sk-ant-gate-three-0042"
_SECONDS = 60

#: NAME LENGTH [BASE]. Its keep-alive finds a dead connection within seconds, where real clients take a minute and more. It tells how often
#: it asked and what it had of each answer, and ends when it has an answer to its end.
PROGRAM = r"""
import http.client, json, os, socket, sys, time
from urllib.parse import urlsplit
name, length, base = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else os.environ["ANTHROPIC_BASE_URL"]
said = [{"role": "user", "content": (name + " ").ljust(length, ".")}]
body = {"model": "fake-model", "max_tokens": 100, "messages": said, "stream": True}
headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
for attempt in range(1, 20):
    with open(name + ".attempts", "w") as told:
        told.write(str(attempt))
    try:
        connection = http.client.HTTPConnection(urlsplit(base).hostname, urlsplit(base).port or 80, timeout=600)
        connection.connect()
        for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.request("POST", "/v1/messages", json.dumps(body), headers)
        answer, had = connection.getresponse(), b""
        with open(name + ".had", "wb", buffering=0) as file:
            while piece := answer.read1(65536):
                had += piece
                file.write(piece)
        if answer.status == 200 and b"message_stop" in had:
            os.rename(name + ".had", name + ".out")
            break
    except (OSError, http.client.HTTPException) as error:
        print(attempt, repr(error), flush=True)
    time.sleep(0.5)
"""


def machine(opened: Room) -> Subject:
    """One whose programs can call a model, through the relay and past it."""
    subject = Subject(opened, opened.client.do("POST", "/api/sessions", {"Image": "debian-python", "Memory": 256})["id"])
    subject.exec(f"cat > /root/agent.py <<'END'\n{PROGRAM}\nEND")
    bind_key(subject, SECRET)
    return subject


def bind_key(subject: Subject, secret: str) -> None:
    """A key of the provider with that secret, for this session."""
    client = subject.room.client
    _, key = client.call("POST", "/api/v2/keys", {"provider": "anthropic", "secret": secret, "alias": f"of {subject.id[:8]}"})
    _, known = client.call("GET", f"/api/v2/sessions/{subject.id}/bindings")
    wanted = {"keys": {"anthropic": key["id"]}, "expected_revision": known["revision"]}
    client.call("POST", f"/api/v2/sessions/{subject.id}/bindings", wanted)


@dataclass(frozen=True)
class Agent:
    """`base`: where it asks; empty: where the machine's environment says, which is the relay."""

    subject: Subject
    name: str
    base: str = ""

    def start(self) -> None:
        command = f"python3 agent.py {self.name} {self.length} {self.base} > {self.name}.log 2>&1"
        self.subject.exec(f"cd /root && rm -f {self.name}.*; ({command}) </dev/null >/dev/null 2>&1 &")

    def has_begun(self) -> None:
        """Waits until it has a part of its answer, which the provider holds."""
        self._comes("had")

    @property
    def length(self) -> int:
        """Of its conversation, in characters: as long as a call of TOKENS needs it to be, by the fake's own count."""
        return 4 * (TOKENS - WORDS) - len(self._asked(0)) + 3

    def _asked(self, length: int) -> str:
        """The request as the fake counts it."""
        content = (self.name + " ").ljust(length, ".") if length else ""
        body = {"model": "fake-model", "max_tokens": 100, "messages": [{"role": "user", "content": content}]}
        return json.dumps(body, sort_keys=True)

    def wanted(self, number: int) -> Wanted:
        return Wanted("anthropic", "fake-model", self._asked(self.length), WORDS, number, with_usage=False)

    def has_ended(self) -> bytes:
        """Waits until it has an answer to its end: that."""
        return self._comes("out")

    def has_all(self, line: dict[str, Any]) -> None:
        """Waits for its end; asserts that its answer is that of the line of the provider's bill, byte for byte but for keep-alives."""
        whole = b"".join(answers.messages_stream(self.wanted(line["number"])))
        got = self.has_ended()
        assert got.replace(_PING, b"") == whole.replace(_PING, b""), f"{self.name} has another answer than an uncut run"

    def attempts(self) -> int:
        return int(self.subject.exec(f"cat /root/{self.name}.attempts")["stdout"])

    def _comes(self, what: str) -> bytes:
        """The file, once it has something in it. It is waited for in the guest, where a look costs least."""
        file = f"/root/{self.name}.{what}"
        wait = f"n=0; until [ -s {file} ] || [ $n -ge {4 * _SECONDS} ]; do n=$((n+1)); sleep 0.25; done; cat {file}"
        done = self.subject.room.client.exec(self.subject.id, wait, 2 * _SECONDS)
        assert done["stdout"], f"{self.name} had nothing for its {what} in {_SECONDS} s: {done['stderr']}"
        return str(done["stdout"]).encode()
