"""What the gateway holds of an account, as lines of its export: metadata. What is sealed (secrets, requests, answers, steers) is not."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway_app.models import (
    AccountBudget,
    Call,
    EgressLine,
    EgressPolicy,
    EgressSum,
    KeyBinding,
    ProviderKey,
    SessionBudget,
    Steer,
    UsageEntry,
)
from sessions_app.models import Account
from sessions_app.services.account_export import chunked

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_SPENT = ("spent_tokens", "spent_microusd", "unknown_calls", "unpriced_calls", "billed_calls")
_BYTES = ("sent_bytes", "received_bytes")
_FIELDS: Mapping[type[Any], tuple[str, str, tuple[str, ...]]] = {  # type, how it belongs to an account, what is told
    ProviderKey: ("provider_key", "account", ("id", "provider", "alias", "last4", "enabled", "created_at", "updated_at")),
    KeyBinding: ("key_binding", "session__account", ("session_id", "provider", "key_id", "bound_at")),
    Call: (
        "model_call",
        "account",
        (
            *("id", "session_id", "epoch", "provider", "api", "model", "streamed", "key_id", "state", "http_status", "request_bytes"),
            *("response_bytes", *_TOKENS, "steer_id", "body_sha256", "sent_sha256", "started_at", "first_byte_at", "ended_at"),
        ),
    ),
    UsageEntry: (
        "model_usage",
        "account",
        (
            *("session_id", "epoch", "call_id", "served", "billed", "provider", "model", "key_id", *_TOKENS, "microusd"),
            *("price_version", "recorded_at"),
        ),
    ),
    SessionBudget: ("session_budget", "session__account", ("session_id", "microusd", *_SPENT, "replayed_calls", "replayed_tokens")),
    AccountBudget: ("account_budget", "account", ("account_id", "tokens", "microusd", *_SPENT)),
    Steer: ("steer", "session__account", ("id", "session_id", "text_sha256", "created_at", "used_at", "call_id")),
    EgressPolicy: ("egress_policy", "session__account", ("session_id", "mode", "rules", "revision", "changed_at")),
    EgressSum: ("egress_sum", "session__account", ("session_id", "connections", "refusals", *_BYTES)),
    EgressLine: ("egress_line", "session__account", ("session_id", "host", "port", "outcome", "connections", *_BYTES, "last_at")),
}


def rows_of(account: Account) -> Iterator[tuple[str, dict[str, Any]]]:
    for model, (type_, path, fields) in _FIELDS.items():
        for row in chunked(model._default_manager.filter(**{path: account}), fields):
            yield type_, row
