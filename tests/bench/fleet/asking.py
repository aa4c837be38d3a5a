"""Requests that survive cuts: each with one key for as often as it is sent, each ended within a bound, each answer judged."""

import http.client
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keepstate_site.client import FINAL, Client, Refused
from tests.bench.fleet.journal import Journal
from tests.bench.fleet.refusals import is_expected

#: What a broken connection looks like to this client. HTTP's own errors are not among them: they are answers.
CUT = (OSError, http.client.HTTPException)
#: The code of what did not end within the bound, which is a finding already.
UNENDED = "unended"
#: Typed answers that say "whether it was done is not known": the same key asks again.
UNKNOWN = frozenset({"ks_unavailable", "ks_throttled"})
PAUSE_SECONDS = 0.5
#: One in so many accepted requests is sent once more: it must come to the same operation.
REPEATED = 8


@dataclass(frozen=True)
class Outcome:
    """Of a request, or of the operation that it began. `code`: empty for a success. `seconds`: of an operation, from its acceptance to its
    end by the database's clock; of what was refused at once, until the answer.
    """

    ok: bool
    response: Any = None
    code: str = ""
    message: str = ""
    operation_id: str = ""
    seconds: float = 0.0

    @property
    def end(self) -> str:
        """done; refused CODE, at once; failed CODE, after it was accepted."""
        return "done" if self.ok else f"{'failed' if self.operation_id else 'refused'} {self.code}"


@dataclass
class Asking:
    """What does not end within `bound_seconds` is a finding. Any thread may ask."""

    client: Client
    journal: Journal
    bound_seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _chance: random.Random = field(default_factory=lambda: random.Random(7))

    def read(self, path: str) -> Any:
        """Raises Refused, for what is not there."""
        return self._answered("read", lambda: self.client.call("GET", path))[1]

    def do(
        self,
        act: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        about: str = "",
        once_answered: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Ask for a change, wait for its end, and judge it: a refusal is an outcome too. `once_answered`: called before the waiting."""
        began, key = time.monotonic(), "ksop_" + uuid.uuid4().hex
        at = self.journal.now()
        try:
            _, answer = self._answered(act, lambda: self.client.call(method, path, body, key=key))
            once_answered()
            self._maybe_again(act, method, path, body, key, answer)
            outcome = self._ended(act, answer, began)
        except Refused as refusal:
            outcome = Outcome(False, None, refusal.code, str(refusal.error.get("message")), seconds=time.monotonic() - began)
        self.judge(act, outcome, about, at)
        return outcome

    def follow(self, act: str, operation_id: str, *, about: str) -> Outcome:
        """Wait for the end of what somebody else has asked for, and judge it likewise."""
        began, at = time.monotonic(), self.journal.now()
        try:
            outcome = self._ended(act, {"operation_id": operation_id}, began)
        except Refused as refusal:
            outcome = Outcome(False, None, refusal.code, str(refusal.error.get("message")), operation_id)
        self.judge(act, outcome, about, at)
        return outcome

    def judge(self, act: str, outcome: Outcome, about: str, began: float) -> None:
        """Count it, and note what may not be."""
        with self._lock:
            self.counts[f"{act} {outcome.end}"] += 1
        self.journal.write(
            act, session=about, began=round(began, 2), ok=outcome.ok, code=outcome.code, message=outcome.message,
            operation=outcome.operation_id, seconds=round(outcome.seconds, 2),
        )  # fmt: skip
        if not outcome.ok and outcome.code != UNENDED and not is_expected(act, outcome.code, outcome.message):
            self.journal.finding(f"{act} {outcome.end}, as it may not: {outcome.message}", operation=outcome.operation_id)

    def _answered(self, act: str, call: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        """Send until it is answered. Raises Refused with what was answered, or with the code `unended` at the bound."""
        deadline = time.monotonic() + self.bound_seconds
        while True:
            try:
                return call()
            except Refused as refusal:
                if refusal.code not in UNKNOWN:
                    raise
                why = refusal.code
            except CUT as cut:
                why = type(cut).__name__
            with self._lock:
                self.counts[f"sent again after {why}"] += 1
            self._require_time(act, deadline)
            time.sleep(PAUSE_SECONDS)

    def _require_time(self, what: str, deadline: float) -> None:
        if time.monotonic() > deadline:
            self.journal.finding(f"{what}: no end within {self.bound_seconds:.0f} s")
            raise Refused(0, {"code": UNENDED, "message": "no answer"})

    def _maybe_again(self, act: str, method: str, path: str, body: dict[str, Any] | None, key: str, answer: Any) -> None:
        with self._lock:
            wanted = self._chance.randrange(REPEATED) == 0
        if not wanted or act == "delete":  # whose key is erased with what it named
            return
        _, again = self._answered(act, lambda: self.client.call(method, path, body, key=key))
        if _operation_of(again) not in ("", _operation_of(answer)):
            self.journal.finding(f"{act}: one key began two operations", first=_operation_of(answer), second=_operation_of(again))

    def _ended(self, act: str, answer: Any, began: float) -> Outcome:
        operation_id = _operation_of(answer)
        if not operation_id:
            return Outcome(True, answer, seconds=time.monotonic() - began)
        deadline = time.monotonic() + self.bound_seconds
        while True:
            row = self.read(f"/api/operations/{operation_id}")
            if row["state"] in FINAL:
                break
            self._require_time(f"{act}, operation {operation_id} is {row['state']}", deadline)
            time.sleep(min(max(0.05, 0.1 * (time.monotonic() - began)), PAUSE_SECONDS))
        error = row["error"] or {}
        code = "" if row["state"] == "succeeded" else str(error.get("code", row["state"]))
        return Outcome(not code, row["response"], code, str(error.get("message", "")), operation_id, _seconds(row))


def _operation_of(answer: Any) -> str:
    return str(answer.get("operation_id") or "") if isinstance(answer, dict) else ""


def _seconds(row: dict[str, Any]) -> float:
    return (datetime.fromisoformat(row["finished_at"]) - datetime.fromisoformat(row["accepted_at"])).total_seconds()
