"""The points of a session's fork tree, read from the database: bounded, and what is left out is counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.utils import quote
from django.urls import reverse

from checkpoints_app.lineage.layout import Point
from checkpoints_app.lineage.picture import Line, Node
from checkpoints_app.models import Checkpoint
from sessions_app.models import Session
from sessions_app.services import lineage

#: Points of the session itself, and of all others of its tree: the newest of each.
OWN, OTHERS = 100, 100


@dataclass(frozen=True)
class Tree:
    nodes: list[Node]
    lines: dict[str, Line]
    is_cut: bool  # there are more checkpoints or sessions than are shown


def of(session: Session) -> Tree:
    family = lineage.of(session)
    members = [one.session for one in (*family.ancestors, *family.descendants)]
    own = _newest([session], OWN)
    others = _newest(members, OTHERS)
    cut = family.more_ancestors or family.more_descendants or len(own) > OWN or len(others) > OTHERS
    rows = [*own[:OWN], *others[:OTHERS]]
    heads = {one.head_checkpoint_id for one in (session, *members)}
    shown = {row.id for row in rows}
    lines = {one.id: _line(one, here=one.id == session.id) for one in (session, *members)}
    return Tree([_node(row, row.id in heads, shown) for row in rows], lines, cut)


def _newest(sessions: Iterable[Session], most: int) -> list[Checkpoint]:
    """One more than `most`, if there are so many."""
    ids = [one.id for one in sessions]
    if not ids:
        return []
    fields = ("id", "session_id", "parent_id", "state", "created_at", "name", "held_at")
    return list(Checkpoint.objects.filter(session_id__in=ids).order_by("-created_at", "-id").only(*fields)[: most + 1])


def _node(row: Checkpoint, is_head: bool, shown: set[str]) -> Node:
    return Node(
        point=Point(row.id, row.session_id, row.parent_id, row.created_at.timestamp()),
        state=row.state,
        at=f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC",
        link=_page("checkpoints_app_checkpoint", row.id),
        name=row.name,
        is_head=is_head,
        is_held=row.held_at is not None,
        cut=row.parent_id is not None and row.parent_id not in shown,
    )


def _line(session: Session, *, here: bool) -> Line:
    return Line(session.id, str(session), _page("sessions_app_session", session.id), here)


def _page(model: str, key: Any) -> str:
    return reverse(f"admin:{model}_change", args=[quote(key)])
