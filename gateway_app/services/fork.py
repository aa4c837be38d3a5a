"""What a fork's child has of its parent in the gateway: its line, keys that are enabled, limit in money, egress policy, steer."""

from gateway_app.services import binding, budget, egress, window
from gateway_app.services import steer as steers
from sessions_app.models import Session
from sessions_app.services.steps import SavedPoint, Steer


def pass_on(parent: Session, child: Session, *, point: SavedPoint | None, steer: Steer | None) -> None:
    """In the commit that makes the child."""
    if point is not None:
        window.carry_on(parent, child, point)
    binding.inherit(parent, child)
    budget.inherit(parent, child)
    egress.inherit(parent, child)
    if steer is not None:
        steers.keep(child, steer)
