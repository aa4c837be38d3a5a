"""The capability document: what this installation can do, its limits, and the words it uses."""

import hashlib
import json
from typing import Any

from django.utils import timezone

from sessions_app.services import bounds, steps
from sessions_app.services.capability_rows import ROWS
from sessions_app.services.steps import CapabilityRow
from sessions_app.states import VOCABULARIES
from sessions_app.version import BUILD

PROTOCOL = 2
MINIMUM_CLIENT_PROTOCOL = 2
PROTOCOL_HEADER = "X-KS-Protocol"


def document() -> dict[str, Any]:
    """`registry_version` is a digest of the rows, limits and words, so it changes when one of them does."""
    rows = [_row(row) for row in [*ROWS, *(row for contribute in steps.capabilities for row in contribute())]]
    states = dict(VOCABULARIES)
    for contribute in steps.vocabularies:
        states.update(contribute())
    content = {"capabilities": rows, "limits": limits(), "states": states}
    version = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    protocol = {"current": PROTOCOL, "minimum_client": MINIMUM_CLIENT_PROTOCOL, "header": PROTOCOL_HEADER}
    return {
        "registry_version": version,
        "build": BUILD,
        "fetched_at": timezone.now(),
        "price_book": steps.price_book.call(),
        "protocol": protocol,
        **content,
    }


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
