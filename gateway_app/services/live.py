"""A session that what the gateway keeps of it may still be changed of."""

from sessions_app.errors import WrongState
from sessions_app.models import Session
from sessions_app.services import operation
from sessions_app.states import SessionState


def lock(session: Session) -> Session:
    """The session as it is now, held until the caller's transaction ends. Raises NotFound or WrongState if it is deleted or being deleted:
    what was written then would outlive its erasure.
    """
    row = operation.lock(session)
    if row.runtime_state == SessionState.DELETING:
        raise WrongState("The session is being deleted. Nothing was changed.", facts={"runtime_state": row.runtime_state})
    return row
