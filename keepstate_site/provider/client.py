"""The fake provider as who runs it asks it: its bill, and what it is told to do wrong."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class FakeProvider:
    url: str

    def bill(self) -> dict[str, Any]:
        """As `GET /fake/bill` tells it."""
        told: dict[str, Any] = self._asked("/fake/bill", None)
        return told

    def script(self, **told: Any) -> None:
        """`acts` of the next calls, `default` of all others. Raises HTTPError for what is no act."""
        self._asked("/fake/script", told)

    def release(self) -> None:
        """Whoever is held goes on."""
        self._asked("/fake/release", {})

    def reset(self) -> None:
        """An empty bill, no script."""
        self._asked("/fake/reset", {})

    def _asked(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode())  # noqa: S310  our own loopback
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return json.load(answer)
