"""Who a session's guest is told to be, and when it has to be told."""

import hashlib

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import fork
from workers.machine.driver import GuestIdentity


def identity_for(checkpoint: Checkpoint) -> GuestIdentity | None:
    """None where the memory is the session's own. At the checkpoint that a fork began with it is still its parent's, at every resume of it.

    Drawn from the session's id, so that a second resume of that checkpoint makes the same machine again; not equal to it, for a machine id
    is not to be shown around.
    """
    if checkpoint.boundary != fork.BOUNDARY:
        return None
    session = checkpoint.session
    return GuestIdentity(hashlib.sha256(f"machine-id/{session.id}".encode()).hexdigest()[:32], session.short_id)
