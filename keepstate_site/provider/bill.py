"""The fake provider's own bill: every call that reached it, whatever its caller saw of it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Line:
    """`delivered` events of a stream of `events`; `body_sha256` of the request as it came; `key_last4` of the credential that was shown."""

    number: int
    api: str
    path: str
    model: str
    stream: bool
    body_sha256: str
    key_last4: str
    input_tokens: int
    output_tokens: int
    events: int = 0
    delivered: int = 0
    outcome: str = "open"


class Bill:
    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, **facts: Any) -> Line:
        line = Line(number=len(self.lines) + 1, **facts)
        self.lines.append(line)
        return line

    def told(self) -> dict[str, Any]:
        lines = [asdict(line) for line in self.lines]
        billed = [line for line in self.lines if line.outcome != "refused"]
        return {
            "calls": len(lines),
            "billed_calls": len(billed),
            "input_tokens": sum(line.input_tokens for line in billed),
            "output_tokens": sum(line.output_tokens for line in billed),
            "lines": lines,
        }
