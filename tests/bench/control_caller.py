"""One client of the bench of control: a session of its own, each request on one open connection, answered when its operation has ended."""

import http.client
import json
import time
import urllib.parse
import uuid
from typing import Any

SECONDS = 120.0


class Caller:
    def __init__(self, url: str, token: str):
        self._connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=SECONDS)
        self._token = token
        self._session = ""

    def boot(self) -> None:
        self._session = str(self._ask("POST", "/api/sessions", {"Image": "tiny"})["id"])

    def exec(self) -> None:
        self._of_session("/exec", {"Cmd": "true"})

    def save(self) -> None:
        self._of_session("/checkpoint", {"Stop": False})

    def park(self) -> None:
        self._of_session("/checkpoint", {"Stop": True})

    def resume(self) -> None:
        self._of_session("/resume", {})

    def delete(self) -> None:
        self._ask("DELETE", f"/api/sessions/{self._session}?force=1", None)

    def _of_session(self, path: str, body: dict[str, Any]) -> None:
        self._ask("POST", f"/api/sessions/{self._session}{path}", body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Raises RuntimeError for anything but an operation that has succeeded."""
        status, answer = self._once(method, path, body, {"Idempotency-Key": "ksop_" + uuid.uuid4().hex})
        deadline = time.monotonic() + SECONDS
        while status == 202:  # no place was free for one that waits
            if time.monotonic() > deadline:
                raise RuntimeError(f"{method} {path}: not ended in {SECONDS:.0f} s")
            time.sleep(0.05)
            status, operation = self._once("GET", f"/api/operations/{answer['operation_id']}", None, {})
            if operation["state"] in ("queued", "running"):
                status = 202
            elif operation["state"] == "succeeded":
                return operation["response"]
            else:
                raise RuntimeError(f"{method} {path}: {operation['error']}")
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {str(answer)[:500]}")
        return answer

    def _once(self, method: str, path: str, body: dict[str, Any] | None, more: dict[str, str]) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "X-KS-Protocol": "2", **more}
        payload = None if body is None else json.dumps(body).encode()
        if payload is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(method, path, payload, headers)
        answer = self._connection.getresponse()
        read = json.loads(answer.read() or b"null")
        return answer.status, read["data"] if isinstance(read, dict) and "schema_version" in read and "data" in read else read
