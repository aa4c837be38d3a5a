"""Erasure of what a deleted session alone held."""
from typing import Any
from sessions_app.models import Session
def erase_session(session: Session) -> dict[str, Any]:
    return {}
