"""How a worker tells of sessions in an operation's response: in the fields of the route that asked."""

from typing import Any

from checkpoints_app.models import Checkpoint
from sessions_app.models import Operation, Session
from sessions_app.services import fork_plan, steps


def session_words(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "short_id": session.short_id,
        "image": session.image_name,
        "state": session.runtime_state,
        "execution_epoch": session.epoch,
    }


def save_words(session: Session, checkpoint: Checkpoint) -> dict[str, object]:
    return {
        **session_words(session),
        "checkpoint_id": checkpoint.id,
        "content_manifest_hash": checkpoint.content_digest,
        "pause_seconds": checkpoint.pause_seconds,
        "written_bytes": checkpoint.written_bytes,
        "unique_bytes": checkpoint.unique_bytes,
        "stored_bytes": checkpoint.stored_bytes,
    }


def fork_words(asked: Operation, children: list[tuple[Session, Operation]]) -> dict[str, Any] | list[dict[str, Any]]:
    """Each child with its first resume: the plain route's array, or the v2 route's answer where a plan was executed."""
    plan_id = asked.parameters.get("plan_id")
    if plan_id is None:
        return [_child(child, resume) for child, resume in children]
    bound = steps.bound_keys.call([child.id for child, _ in children])
    told = [_planned_child(child, resume, {key.provider: key.key_id for key in bound.get(child.id, [])}) for child, resume in children]
    return {"plan_id": plan_id, "children": told, "note": fork_plan.NOTE}


def _child(child: Session, resume: Operation) -> dict[str, Any]:
    return {"id": child.id, "parent": child.parent_id, "short_id": child.short_id, "state": child.runtime_state, **_resume(resume)}


def _planned_child(child: Session, resume: Operation, keys: dict[str, str]) -> dict[str, Any]:
    named = {"session_id": child.id, "name": child.name or None, "runtime_state": child.runtime_state}
    return {**named, "key_bindings": keys, "agents": [], **_resume(resume)}


def _resume(resume: Operation) -> dict[str, Any]:
    return {
        "checkpoint_id": resume.parameters["checkpoint_id"],
        "resume_operation_id": resume.id,
        "resume_state": resume.state,
        "error": resume.error,
    }
