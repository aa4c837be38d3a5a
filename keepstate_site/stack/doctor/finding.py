"""What one check found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"
    UNKNOWN = "unknown"  # the check could not be made: never to be read as ok


@dataclass(frozen=True)
class Finding:
    name: str
    verdict: Verdict
    text: str
    fix: str = ""


Check = Callable[[], Iterable[Finding]]


def ok(name: str, text: str) -> Finding:
    return Finding(name, Verdict.OK, text)


def warn(name: str, text: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.WARN, text, fix)


def failed(name: str, text: str, fix: str) -> Finding:
    return Finding(name, Verdict.FAIL, text, fix)


def unknown(name: str, text: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.UNKNOWN, text, fix)


def examine(name: str, check: Check) -> list[Finding]:
    """The check's findings; a check that itself breaks is unknown."""
    try:
        return list(check())
    except Exception as error:  # a doctor that dies of one symptom tells nothing of the others
        return [unknown(name, f"the check could not be made: {type(error).__name__}: {error}")]
