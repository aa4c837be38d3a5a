"""All records of an account as JSON lines: one moment of the database, made while they are sent, whole only with the last line.

Each line is {"type": ..., "data": {...}}; the first is of type "export", the last is {"type": "end", "rows": how many lie between}. Secrets
are in none of them, and checkpoints stand in them by reference.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, transaction
from django.db.models import QuerySet

from sessions_app.errors import Unavailable
from sessions_app.models import (
    Account,
    ApiToken,
    IdlePolicy,
    Membership,
    Operation,
    RecoveryPolicy,
    RetentionPolicy,
    SavePolicy,
    Session,
    SessionEvent,
    WebhookEndpoint,
)
from sessions_app.services import host_names, steps

#: The longest that an export may take; a reader who is slower sees it end without its last line.
SECONDS = 3600
_ROWS = 500  # fetched at once
_PIECE_BYTES = 64 * 1024
_FIELDS: Mapping[type[Any], tuple[str, str, tuple[str, ...]]] = {  # type, how it belongs to an account, what is told
    Membership: ("member", "account", ("id", "user__username", "role", "created_at")),
    ApiToken: ("token", "account", ("id", "name", "prefix", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at")),
    Session: (
        "session",
        "account",
        (
            *("id", "name", "runtime_state", "epoch", "revision", "image_name", "image_digest", "architecture", "memory_bytes", "cpus"),
            *("budget_tokens", "parent_id", "head_checkpoint_id", "park_reason", "failure", "created_at", "last_activity_at", "deleted_at"),
        ),
    ),
    SavePolicy: ("save_policy", "session__account", ("session_id", "enabled", "interval_minutes")),
    IdlePolicy: ("idle_policy", "session__account", ("session_id", "enabled", "idle_minutes", "warning_seconds")),
    RecoveryPolicy: ("recovery_policy", "session__account", ("session_id", "on_host_loss", "on_machine_loss")),
    RetentionPolicy: (
        "retention_policy",
        "account",
        ("session_id", "active", "enabled", "keep_last", "keep_hourly", "keep_daily", "keep_weekly", "keep_named"),
    ),
    SessionEvent: (
        "event",
        "session__account",
        ("id", "session_id", "number", "epoch", "type", "source", "subject_type", "subject_id", "payload", "observed_at", "recorded_at"),
    ),
    Operation: (
        "operation",
        "account",
        (
            *("id", "session_id", "kind", "state", "parameters", "idempotency_key", "method", "path", "progress", "http_status"),
            *("response", "error", "accepted_at", "started_at", "finished_at"),
        ),
    ),
    WebhookEndpoint: ("webhook", "account", ("id", "url", "types", "enabled", "disabled_reason", "created_at", "last_success_at")),
}


def lines(account: Account) -> Iterator[bytes]:
    """Pieces of whole lines; the last is {"type": "end", "rows": n}. Prerequisite: all of it is taken in one thread, outside a transaction.

    Raises Unavailable when its time is over.
    """
    until, rows, piece = time.monotonic() + SECONDS, 0, bytearray()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SELECT clock_timestamp()")  # the first statement fixes the moment
            piece += _line("export", {"account_id": account.id, "at": cursor.fetchone()[0]})
        for step in steps.export_account:
            for type_, row in step(account):
                piece += _line(type_, row)
                rows += 1
                if len(piece) >= _PIECE_BYTES:
                    yield bytes(piece)
                    piece.clear()
                    _require_time(until)
    yield bytes(piece) + json.dumps({"type": "end", "rows": rows}).encode() + b"\n"


def rows_of(account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    """What this app holds. Forks are lines of their own, so that a reader need not know that a session names its parent."""
    yield "account", {"id": account.id, "name": account.name, "created_at": account.created_at, "closing_at": account.closing_at}
    for model, (type_, path, fields) in _FIELDS.items():
        for row in chunked(model._default_manager.filter(**{path: account}), fields):
            if "parameters" in row:
                row["parameters"] = host_names.without(row["parameters"])
            yield type_, row
            if type_ == "session" and row["parent_id"]:
                yield "fork", {"parent": row["parent_id"], "child": row["id"]}


def chunked(found: "QuerySet[Any]", fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """By a cursor of the server and in no order, so that neither memory nor the time to the first row grows with what there is."""
    yield from found.order_by().values(*fields).iterator(chunk_size=_ROWS)


def _line(type_: str, row: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "data": row}, cls=DjangoJSONEncoder, ensure_ascii=False).encode() + b"\n"


def _require_time(until: float) -> None:
    if time.monotonic() > until:
        raise Unavailable(f"The export took longer than {SECONDS} s and was ended.")
