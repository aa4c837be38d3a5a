"""Identifiers of the gateway's rows."""

import secrets


def new_key_id() -> str:
    return "vlt_" + secrets.token_hex(12)


def new_call_id() -> str:
    return "call_" + secrets.token_hex(12)


def new_steer_id() -> str:
    return "steer_" + secrets.token_hex(12)
