"""Clients of a service in which something fails: each asks as its kind does, again and again, and every answer is noted."""

import http.client
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from keepstate_site.client import FINAL, Client, Refused

#: A request that brought no answer, or one that says to ask again.
_BROKEN = (OSError, http.client.HTTPException)
_AGAIN_SECONDS = 0.2
OK = "ok"


def insist(client: Client, method: str, path: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """As a client that means it: ask, and wait for the end, with the same key whenever there was no answer or it was 503.

    The operation's row. Raises Refused for any other refusal, TimeoutError if it has no end in that time.
    """
    key, deadline = "ksop_" + uuid.uuid4().hex, time.monotonic() + seconds
    accepted = False
    while time.monotonic() < deadline:
        try:
            if not accepted:
                client.call(method, path, body, key=key)
                accepted = True
            row: dict[str, Any] = client.get(f"/api/operations/{key}")
            if row["state"] in FINAL:
                return row
        except Refused as refusal:
            if refusal.status != 503:
                raise
        except _BROKEN:
            pass
        time.sleep(_AGAIN_SECONDS)
    raise TimeoutError(f"{method} {path} had no end in {seconds:g} s")


@dataclass(frozen=True)
class Answer:
    """`began` and `ended` by `time.monotonic`; `what`: OK, a refusal's status and code, or what broke."""

    began: float
    ended: float
    what: str


@dataclass
class Asker:
    name: str
    act: Callable[[], object]
    answers: list[Answer] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._over.is_set():
            began, what = time.monotonic(), self._ask()
            self.answers.append(Answer(began, time.monotonic(), what))
            self._over.wait(_AGAIN_SECONDS)

    def end(self) -> None:
        self._over.set()

    def _ask(self) -> str:
        try:
            self.act()
        except Refused as refusal:
            return f"{refusal.status} {refusal.code}"
        except _BROKEN:
            return "no answer"
        except TimeoutError:
            return "no end"
        return OK

    def count_since(self, moment: float) -> int:
        """Good answers to what was asked since."""
        return sum(one.what == OK and one.began >= moment for one in self.answers)

    def told(self, fault: float, mended: float) -> dict[str, Any]:
        """What it met from the fault on, and how long after its end it had its first good answer; None if it had none."""
        met = [one for one in self.answers if one.ended >= fault]
        good = [one.ended - mended for one in met if one.what == OK and one.ended >= mended]
        return {
            "answers_during": sum(one.what == OK and one.ended < mended for one in met),
            "refusals": dict(Counter(one.what for one in met if one.what != OK)),
            "slowest_seconds": round(max((one.ended - one.began for one in met), default=0.0), 2),
            "first_answer_after_seconds": round(min(good), 2) if good else None,
        }


@contextmanager
def asking(acts: Mapping[str, Callable[[], object]]) -> Iterator[dict[str, Asker]]:
    """All of them ask at once until the end of the block, each in a thread; what they are about then is waited for."""
    askers = {name: Asker(name, act) for name, act in acts.items()}
    threads = [threading.Thread(target=one.run, name=f"asks {one.name}", daemon=True) for one in askers.values()]
    for thread in threads:
        thread.start()
    try:
        yield askers
    finally:
        for one in askers.values():
            one.end()
        for thread in threads:
            thread.join(300)
