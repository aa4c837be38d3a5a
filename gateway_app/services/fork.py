"""What a fork's child has of its parent in the gateway: its line, its keys as far as they are enabled, its limit in money, its steer."""

from gateway_app.services import binding, budget, window
from gateway_app.services import steer as steers
from sessions_app.models import Session
from sessions_app.services.steps import SavedPoint, Steer


def pass_on(parent: Session, child: Session, *, point: SavedPoint | None, steer: Steer | None) -> None:
    """Its egress policy is not passed on: where a child may connect to is decided anew. In the commit that makes the child."""
    if point is not None:
        window.carry_on(parent, child, point)
    binding.inherit(parent, child)
    budget.inherit(parent, child)
    if steer is not None:
        steers.keep(child, steer)
