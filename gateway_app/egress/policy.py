"""A session's policy, and what it lets through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway_app.egress.names import Target
from gateway_app.states import EgressMode


@dataclass(frozen=True)
class Rule:
    """`host`: a name, or *.name for all names below it, at whatever depth, and not for itself."""

    host: str
    ports: tuple[int, ...]

    def covers(self, wanted: Target) -> bool:
        named = wanted.host.endswith(self.host[1:]) if self.host.startswith("*.") else wanted.host == self.host
        return named and wanted.port in self.ports


@dataclass(frozen=True)
class Policy:
    mode: str
    rules: tuple[Rule, ...]

    def allows(self, wanted: Target) -> bool:
        return self.mode == EgressMode.ALLOW_LIST and any(rule.covers(wanted) for rule in self.rules)


def stored(mode: str, rules: Sequence[Mapping[str, Any]]) -> Policy:
    """From its row."""
    return Policy(mode, tuple(Rule(one["host"], tuple(one["ports"])) for one in rules))
