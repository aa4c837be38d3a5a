"""docs/states.md, written from the tables that the services obey."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from checkpoints_app import states as checkpoints
from sessions_app import states as sessions
from sessions_app.services import steps

_HEAD = """# States

Written by `manage.py write_states` from the apps' `states.py`; a test holds this page to them.
A step from one state to another is a guarded update: it happens only while the row is in the state that it starts from, and a step that
is not in these tables does not happen.
"""


def page() -> str:
    parts = [
        _HEAD,
        _section("Session", sessions.SESSION_TRANSITIONS, "A machine may be alive in: " + _words(sessions.SESSION_LIVE) + "."),
        _asked_for(),
        _section(
            "Operation",
            sessions.OPERATION_TRANSITIONS,
            "One exclusive operation at a time on a session: " + _words(sessions.EXCLUSIVE_KINDS) + ".",
        ),
        _section("Device grant", sessions.DEVICE_GRANT_TRANSITIONS, "Whatever its state, it ends when its time is over."),
        _section("Account deletion", sessions.DELETION_TRANSITIONS, "While it is scheduled or running, the account takes no other change."),
        _section("Checkpoint", checkpoints.CHECKPOINT_TRANSITIONS, _client_words()),
        _section("Pack", checkpoints.PACK_TRANSITIONS, "A save may rely on a pack that is " + _words(checkpoints.PACK_RELIABLE) + "."),
        *(_section(*table()) for table in steps.state_tables),
    ]
    return "\n".join(parts)


def _section(noun: str, transitions: Mapping[Any, frozenset[Any]], note: str) -> str:
    rows = [f"| {state} | {_words(after) or 'final'} |" for state, after in transitions.items()]
    return "\n".join([f"## {noun}", "", note, "", "| state | may become |", "|---|---|", *rows, "", *_diagram(transitions), ""])


def _diagram(transitions: Mapping[Any, frozenset[Any]]) -> list[str]:
    first, *_ = transitions
    edges = [f"    {state} --> {after}" for state, afters in transitions.items() for after in sorted(afters)]
    ends = [f"    {state} --> [*]" for state, afters in transitions.items() if not afters]
    return ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *edges, *ends, "```"]


def _asked_for() -> str:
    rows = [f"| {kind} | {_words(states)} |" for kind, states in sessions.ALLOWED_FROM.items()]
    return "\n".join(["### What may be asked for", "", "| operation | while the session is |", "|---|---|", *rows, ""])


def _client_words() -> str:
    told = ", ".join(f"`{state}` as `{word}`" for state, word in checkpoints.CLIENT_WORDS.items())
    return f"Clients read {told}. Only that one can be resumed from."


def _words(states: "frozenset[Any]") -> str:
    """In the order of the states' own definition, so that the page does not change by itself."""
    kinds = {type(state) for state in states}
    return ", ".join(f"`{state}`" for kind in sorted(kinds, key=str) for state in _members(kind) if state in states)


def _members(kind: type[StrEnum]) -> list[StrEnum]:
    return list(kind)
