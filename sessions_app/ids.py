"""Identifiers: random, typed by a prefix, safe in URLs and file names."""

import secrets

SHORT_ID_LENGTH = 12
RECORD_PREFIX = "session_"


def new_account_id() -> str:
    return "acct_" + secrets.token_hex(12)


def new_token_id() -> str:
    return "tok_" + secrets.token_hex(8)


def new_membership_id() -> str:
    return "mbr_" + secrets.token_hex(12)


def new_session_id() -> str:
    """32 hex digits; its first 12 are the short id, and `session_` before it makes the record id."""
    return secrets.token_hex(16)


def new_operation_id() -> str:
    return "op_" + secrets.token_hex(12)


def new_event_id() -> str:
    return "ev_" + secrets.token_hex(12)


def new_plan_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


def new_webhook_id() -> str:
    return "whk_" + secrets.token_hex(12)


def new_message_id() -> str:
    return "msg_" + secrets.token_hex(12)


def new_workspace_id() -> str:
    return "ws_" + secrets.token_hex(12)


def new_deletion_id() -> str:
    return "adel_" + secrets.token_hex(12)
