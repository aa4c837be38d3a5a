"""What this app can tell of the service's capabilities."""

from collections.abc import Mapping

from checkpoints_app.states import VOCABULARIES
from sessions_app.services.steps import CapabilityRow


def rows() -> list[CapabilityRow]:
    return [
        CapabilityRow(
            "checkpoints.save", "available", "Save a running session: memory, disk and devices of one moment, published atomically."
        ),
        CapabilityRow("checkpoints.list", "available", "List a session's saved checkpoints, newest first."),
        CapabilityRow(
            "deletion.plans", "unavailable", "Plans for deletion", note="Deleting a session works without a plan; plans come later."
        ),
    ]


def vocabularies() -> Mapping[str, list[str]]:
    return VOCABULARIES
