"""What happened, line by line: every request's end, every fault, every finding, so that a failure can be read afterwards."""

import json
import threading
import time
from pathlib import Path
from typing import Any


class Journal:
    """JSON lines with seconds since the start. Any thread may write; once it is closed, to no effect.

    A finding is what the product may not do; one is enough to fail.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.findings: list[str] = []
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._stream = file.open("w", buffering=1)

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def write(self, what: str, **facts: Any) -> None:
        line = json.dumps({"at": round(self.now(), 2), "what": what, **facts}, default=str)
        with self._lock:
            if not self._stream.closed:
                self._stream.write(line + "\n")

    def finding(self, text: str, **facts: Any) -> None:
        self.write("FINDING", text=text, **facts)
        with self._lock:
            if not self._stream.closed:
                self.findings.append(f"{self.now():.0f} s: {text} {facts or ''}".rstrip())

    def close(self) -> None:
        with self._lock:
            self._stream.close()
