"""Pins: the digest of everything that must be equal between the host that saved and the host that resumes."""

import hashlib
import json
from collections.abc import Mapping

from checkpoints_app.models import Pin


def digest(facts: Mapping[str, str]) -> str:
    """SHA-256, hex, over the facts as canonical JSON."""
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def record(architecture: str, facts: Mapping[str, str]) -> Pin:
    pin, _ = Pin.objects.get_or_create(digest=digest(facts), defaults={"architecture": architecture, "facts": dict(facts)})
    return pin


def differences(saved: Mapping[str, str], here: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    """Each field that differs, with both values: what a refusal names."""
    return {
        name: {"checkpoint": saved.get(name), "host": here.get(name)}
        for name in sorted({*saved, *here})
        if saved.get(name) != here.get(name)
    }
