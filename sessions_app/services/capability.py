"""The capability document: what this installation can do, its limits, and the words it uses."""

import hashlib
import json
from typing import Any

from django.utils import timezone

from sessions_app.services import bounds, steps
from sessions_app.services.steps import CapabilityRow
from sessions_app.states import VOCABULARIES
from sessions_app.version import BUILD

PROTOCOL = 2
MINIMUM_CLIENT_PROTOCOL = 2
PROTOCOL_HEADER = "X-KS-Protocol"

_LATER = "This version does not have it."
ROWS = [
    CapabilityRow("session.start", "available", "Start a session from a guest image."),
    CapabilityRow("session.records", "available", "Make a session's record without a machine, rename it, provision it later."),
    CapabilityRow("session.bindings", "unavailable", "Provider keys bound to a session.", note=_LATER),
    CapabilityRow("session.list", "available", "List and read sessions with their state, epoch and last checkpoint."),
    CapabilityRow("session.exec", "available", "Run one command in the guest: exit code, both streams, whether they were cut, duration."),
    CapabilityRow("session.resume", "available", "Resume a session from its last checkpoint or from a named one."),
    CapabilityRow("session.fork", "available", "Branch a checkpoint into 1 to 8 running children, each a session of its own."),
    CapabilityRow("session.fork_plan", "available", "Show what a fork would make, and make exactly that by the plan's digest."),
    CapabilityRow("session.restore", "available", "Take a session back to a named checkpoint, with a reason and consent to what is left."),
    CapabilityRow("session.lineage", "available", "Read the tree of a session's forks, and a fork's history from its parent's on."),
    CapabilityRow("session.checkpoint_policy", "available", "Save a running session by itself at an interval; off until asked for."),
    CapabilityRow("session.idle", "available", "Warn an idle session, then save and park it; off until asked for."),
    CapabilityRow("operations.list", "available", "List operations, newest first, of one session or in one state."),
    CapabilityRow("operations.cancel", "available", "Ask a boot, save, resume or command to stop; what finishes first wins."),
    CapabilityRow("session.delete", "available", "End a session's machine and erase what only this session held."),
    CapabilityRow("account.tokens", "available", "List, make and revoke the account's tokens; a token is told once, when it is made."),
    CapabilityRow("account.members", "available", "Members of an account with the roles owner, operator and reader."),
    CapabilityRow("events.list", "available", "Read a session's history, numbered without gaps."),
    CapabilityRow("events.stream", "available", "Follow a session's history as server-sent events, from any number on."),
    CapabilityRow("operations.idempotent", "available", "Repeat a mutation under its Idempotency-Key: one effect, the same answer."),
    CapabilityRow("webhooks", "available", "Be told of session and checkpoint events, signed as Standard Webhooks has it."),
    CapabilityRow("session.logs", "available", "Read a session's log: set-up, saves, resumes and failures, in words."),
    CapabilityRow("session.usage", "available", "Awake time and stored bytes of a session, each with its standing."),
    CapabilityRow("session.meter", "degraded", "A session's spent tokens and billed calls.", note="Both are null: no model call is seen."),
    CapabilityRow("session.attach", "available", "An interactive terminal: a WebSocket with resize, or the ks-attach upgrade."),
    CapabilityRow(
        "session.workspace",
        "available",
        "Begin with an uploaded archive, unpacked before the session runs; download the workspace as a tar.",
    ),
    CapabilityRow("session.files", "available", "List, read, download and write files of a running session's workspace."),
    CapabilityRow("api.v2.workspace", "unavailable", "Workspace records with agents and tasks.", note=_LATER),
    CapabilityRow("agent.workspace", "unavailable", "Agents in sessions.", note=_LATER),
    CapabilityRow("keys.inventory", "unavailable", "Provider keys.", note=_LATER),
    CapabilityRow("budget.admission", "unavailable", "Budgets are recorded but not yet enforced.", note=_LATER),
    CapabilityRow("preflight", "available", "What a run needs and lacks; creates and reserves nothing."),
]


def document() -> dict[str, Any]:
    """`registry_version` is a digest of the rows, limits and words, so it changes when one of them does."""
    rows = [_row(row) for row in [*ROWS, *(row for contribute in steps.capabilities for row in contribute())]]
    states = dict(VOCABULARIES)
    for contribute in steps.vocabularies:
        states.update(contribute())
    content = {"capabilities": rows, "limits": limits(), "states": states}
    version = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    protocol = {"current": PROTOCOL, "minimum_client": MINIMUM_CLIENT_PROTOCOL, "header": PROTOCOL_HEADER}
    return {"registry_version": version, "build": BUILD, "fetched_at": timezone.now(), "price_book": None, "protocol": protocol, **content}


def limits() -> dict[str, int]:
    return {
        "memory_mib_min": bounds.MEMORY_MIB.start,
        "memory_mib_max": bounds.MEMORY_MIB.stop - 1,
        "cpus_max": bounds.CPUS.stop - 1,
        "budget_tokens_default": bounds.DEFAULT_BUDGET_TOKENS,
        "budget_tokens_max": bounds.BUDGET_TOKENS.stop - 1,
        "exec_words_max": bounds.EXEC_WORDS,
        "exec_bytes_max": bounds.EXEC_BYTES,
        "exec_seconds_default": bounds.DEFAULT_EXEC_SECONDS,
        "exec_seconds_max": bounds.EXEC_SECONDS.stop - 1,
        "fork_children_max": bounds.FORK_CHILDREN.stop - 1,
        "auto_save_minutes_min": bounds.SAVE_MINUTES.start,
        "auto_save_minutes_max": bounds.SAVE_MINUTES.stop - 1,
        "idle_minutes_min": bounds.IDLE_MINUTES.start,
        "idle_minutes_max": bounds.IDLE_MINUTES.stop - 1,
        "file_entries_max": bounds.FILE_ENTRIES,
        "file_read_bytes_max": bounds.FILE_READ_BYTES,
        "file_write_bytes_max": bounds.UPLOAD_BYTES,
        "file_download_bytes_max": bounds.DOWNLOAD_BYTES,
        "workspace_bytes_max": bounds.WORKSPACE_BYTES,
        "workspace_unpacked_bytes_max": bounds.WORKSPACE_UNPACKED_BYTES,
        "workspace_files_max": bounds.WORKSPACE_FILES,
        "workspaces_waiting_max": bounds.WORKSPACES_WAITING,
        "body_bytes_max": bounds.BODY_BYTES,
        "page_max": bounds.PAGE.stop - 1,
        "event_page_max": bounds.EVENT_PAGE.stop - 1,
    }


def _row(row: CapabilityRow) -> dict[str, Any]:
    missing = row.availability != "available"
    return {
        "id": row.id,
        "availability": row.availability,
        "summary": row.summary,
        "surface": "api",
        "prerequisites": [],
        "limits": {},
        "note": row.note,
        "since_protocol": PROTOCOL,
        "unavailable_reason": (row.note or row.summary) if missing else None,
    }
