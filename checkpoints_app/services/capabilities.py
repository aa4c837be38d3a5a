"""What this app can tell of the service's capabilities."""

from sessions_app.services.steps import CapabilityRow


def rows() -> list[CapabilityRow]:
    return [
        CapabilityRow("checkpoints.save", "available", "Save a running session: memory, disk and devices of one moment, published atomically."),
        CapabilityRow("checkpoints.list", "available", "List a session's saved checkpoints, newest first."),
        CapabilityRow("deletion.plans", "unavailable", "Plans for deletion", note="Deleting a session works without a plan; plans come later."),
    ]
