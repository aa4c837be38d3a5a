"""What is wrong in the store."""

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import scrub
from checkpoints_app.states import CheckpointState

MOST = 1000


def corrupt() -> int:
    """How many checkpoints are refused as damaged, up to MOST."""
    return Checkpoint.objects.filter(state=CheckpointState.CORRUPT).order_by()[:MOST].count()


def verification_is_late() -> bool:
    return scrub.behind()
