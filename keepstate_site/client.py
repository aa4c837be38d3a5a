"""A small client of our own API over the standard library: what the demo, the benches and the tests drive the server with."""

import json
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any

FINAL = {"succeeded", "failed", "cancelled", "reconciliation_required"}
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.01, 0.5
POLL_SHARE = 0.1  # of what has passed: an end is seen a tenth late at most, and what takes long is not asked for a hundred times a second


class Refused(Exception):
    """The server's typed refusal or an operation's failure."""

    def __init__(self, status: int, error: dict[str, Any]):
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status = status
        self.error = error

    @property
    def code(self) -> str:
        return str(self.error.get("code"))


@dataclass(frozen=True)
class Client:
    url: str
    token: str
    wait_seconds: float = 300.0
    poll_share: float = POLL_SHARE

    def get(self, path: str) -> Any:
        return self.call("GET", path)[1]

    def do(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask for a change and wait for its end: the operation's response.

        Raises Refused with the operation's error, TimeoutError if it does not end.
        """
        status, answer = self.call(method, path, body)
        return self.wait(answer["operation_id"]) if status == 202 else answer

    def wait(self, operation_id: str) -> dict[str, Any]:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.wait_seconds:
            operation = self.get(f"/api/operations/{operation_id}")
            if operation["state"] == "succeeded":
                response: dict[str, Any] = operation["response"]
                return response
            if operation["state"] in FINAL:
                raise Refused(operation["http_status"] or 500, operation["error"] or {})
            time.sleep(min(max(FIRST_POLL_SECONDS, self.poll_share * passed), LAST_POLL_SECONDS))
        raise TimeoutError(f"operation {operation_id} did not end in {self.wait_seconds:.0f} s")

    def exec(self, session: str, command: str, timeout: int = 60) -> dict[str, Any]:
        return self.do("POST", f"/api/sessions/{session}/exec", {"Cmd": command, "Timeout": timeout})

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> tuple[int, Any]:
        """Status and data of one request. `key`: an Idempotency-Key to send again; absent, a new one. Raises Refused."""
        request = urllib.request.Request(self.url + path, method=method)  # noqa: S310
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("X-KS-Protocol", "2")
        if method != "GET":
            request.add_header("Prefer", "respond-async")
            request.add_header("Idempotency-Key", key or "ksop_" + uuid.uuid4().hex)
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, payload, timeout=60) as reply:  # noqa: S310
                return reply.status, _data(json.loads(reply.read() or b"null"))
        except urllib.error.HTTPError as reply:
            raise Refused(reply.code, _error(reply.read())) from None


def _data(answer: Any) -> Any:
    return answer["data"] if isinstance(answer, dict) and "data" in answer and "schema_version" in answer else answer


def _error(raw: bytes) -> dict[str, Any]:
    """Either shape of the contract's errors as one dictionary."""
    try:
        answer = json.loads(raw)
    except ValueError:
        return {"code": "unreadable", "message": raw[:200].decode(errors="replace")}
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        return error
    return {**answer, "code": error} if isinstance(answer, dict) else {"code": "unreadable", "message": str(answer)}
