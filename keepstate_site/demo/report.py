"""What the demo prints, and what it writes with --json."""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20


class ClaimFailed(Exception):
    """A claim of the demo did not hold."""


@dataclass
class Report:
    steps: list[dict[str, Any]] = field(default_factory=list)
    saves: list[dict[str, Any]] = field(default_factory=list)
    resumes: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def step(self, text: str, seconds: float | None = None, **figures: Any) -> None:
        self.steps.append({"step": text, "seconds": seconds, **figures})
        when = f"{time.monotonic() - self.began:6.1f} s"
        took = "" if seconds is None else f"  ({seconds:.3f} s)"
        self.say(f"{when}  {text}{took}")

    def claim(self, text: str, holds: bool, seen: object = "") -> None:
        """Print the claim and whether it holds. Raises ClaimFailed if it does not."""
        self.steps.append({"claim": text, "holds": holds})
        self.say(f"          {'✓' if holds else '✗'} {text}")
        if not holds:
            raise ClaimFailed(f"{text} (seen: {seen})")

    def say(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def table(self) -> None:
        self.say("\nsaves     paused       written        stored     published")
        for number, save in enumerate(self.saves, 1):
            self.say(
                f"  {number}     {save['pause_seconds'] * 1000:6.1f} ms  {save['written_bytes'] / MIB:8.1f} MiB  "
                f"{save['stored_bytes'] / MIB:8.2f} MiB  {save['published_seconds']:6.2f} s"
            )
        self.say("resumes   CPUs run   guest answered   heap equal   images")
        for number, resume in enumerate(self.resumes, 1):
            equal = "yes" if resume["heap_equal"] else "NO"
            self.say(
                f"  {number}     {resume['running_seconds']:6.3f} s        {resume['seconds']:6.3f} s   "
                f"{equal:>10}   {resume['images_from']}"
            )

    def write(self, path: Path, *, passed: bool) -> None:
        whole = {"passed": passed, "steps": self.steps, "saves": self.saves, "resumes": self.resumes, **self.facts}
        path.write_text(json.dumps(whole, indent=2) + "\n")
