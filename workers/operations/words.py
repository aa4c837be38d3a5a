"""How a worker tells a session's state in an operation's response: the plain route's fields."""

from typing import Any

from sessions_app.models import Session


def session_words(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "short_id": session.short_id,
        "image": session.image_name,
        "state": session.runtime_state,
        "execution_epoch": session.epoch,
    }
