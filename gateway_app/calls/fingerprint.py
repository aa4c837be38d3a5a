"""What makes two requests the same call: three keys, from the bytes to what a client varies between a call and its retry.

  exact      the bytes of the body as they came
  canonical  the JSON whatever its order of keys and its spacing, without what only says how the answer is to be transported
  loose      without what clients put there anew for a new process: for calls that were in flight at a checkpoint, and no others
Each key begins with what must be equal in any case: provider, method, path, the versions and betas that change an answer. Who calls
(tenant, lineage) is not in a key: it comes first in every lookup. Never in: credentials, user agents, counters of retries, encodings.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: How an answer is transported, not what it is.
TRANSPORT = ("stream", "stream_options")
#: What clients put anew into the same request of a new process.
VOLATILE = ("client_metadata", "prompt_cache_key")
#: Headers that decide what an answer is.
DECIDING = ("anthropic-version", "anthropic-beta", "openai-beta")


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 in hex. A body that is no JSON object, or is nested beyond reason, has only its exact key, thrice."""

    exact: str
    canonical: str
    loose: str


def fingerprint(*, provider: str, method: str, path: str, headers: Mapping[str, str], body: bytes, parsed: Any) -> Fingerprint:
    """`path` with its query; `headers` by lower-case name; `parsed`: the body's JSON, or None."""
    fixed = [provider, method, path, {name: _listed(headers[name]) for name in DECIDING if name in headers}]
    exact = _digest(["exact", *fixed, hashlib.sha256(body).hexdigest()])
    if not isinstance(parsed, dict):
        return Fingerprint(exact, exact, exact)
    canonical = {name: value for name, value in parsed.items() if name not in TRANSPORT}
    try:
        return Fingerprint(exact, _digest(["canonical", *fixed, canonical]), _digest(["loose", *fixed, _loosened(canonical)]))
    except RecursionError:
        return Fingerprint(exact, exact, exact)


def _listed(header: str) -> list[str]:
    """Betas are a set: their order says nothing."""
    return sorted(part.strip() for part in header.split(",") if part.strip())


def _loosened(body: dict[str, Any]) -> dict[str, Any]:
    kept = {name: _without_cache_marks(value) for name, value in body.items() if name not in VOLATILE}
    if isinstance(kept.get("metadata"), dict):
        kept["metadata"] = {name: value for name, value in kept["metadata"].items() if name != "user_id"}
    return kept


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_cache_marks(item) for name, item in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_without_cache_marks(item) for item in value]
    return value


def _digest(value: Any) -> str:
    """Keys in order, no spacing, no escapes: one text for one value. Numbers keep the form that Python's JSON gives them both times."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
