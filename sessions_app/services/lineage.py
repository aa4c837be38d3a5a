"""The fork tree around a session: whose child it is, and what was forked from it, as far as the rows tell. Deleted members stay in it."""

from dataclasses import dataclass

from django.db import connection

from sessions_app.models import Session

#: Generations above a session that are looked at, and below it; members below it that are shown.
GENERATIONS = 64
DESCENDANTS = 200

_UP = """
WITH RECURSIVE line AS (
    SELECT id, parent_id, account_id, 0 AS depth FROM sessions_app_session WHERE id = %s
    UNION ALL
    SELECT parent.id, parent.parent_id, parent.account_id, line.depth + 1
    FROM line JOIN sessions_app_session AS parent ON parent.id = line.parent_id AND parent.account_id = line.account_id
    WHERE line.depth < %s
)
SELECT id, depth AS generation FROM line WHERE depth > 0
"""
# no order is asked for: it would make the whole tree be walked before the first row; generation comes after generation all the same
_DOWN = """
WITH RECURSIVE tree AS (
    SELECT id, account_id, 0 AS depth FROM sessions_app_session WHERE id = %s
    UNION ALL
    SELECT child.id, child.account_id, tree.depth + 1
    FROM tree JOIN sessions_app_session AS child
      ON child.parent_id = tree.id AND child.parent_id <> '' AND child.account_id = tree.account_id
    WHERE tree.depth < %s
)
SELECT id, depth AS generation FROM tree WHERE depth > 0 LIMIT %s
"""


@dataclass(frozen=True)
class Member:
    session: Session
    generation: int  # below the session that was asked for; negative above it


@dataclass(frozen=True)
class Lineage:
    """`ancestors` from the nearest up, `descendants` by generation; what is cut off is said."""

    session: Session
    ancestors: list[Member]
    descendants: list[Member]
    more_ancestors: bool
    more_descendants: bool
    unknown_ancestor_id: str | None  # named by the oldest ancestor that is known, and no row of this account


def of(session: Session) -> Lineage:
    above, more_ancestors, unknown = line_above(session)
    below = _members(_DOWN, [session.id, GENERATIONS, DESCENDANTS + 1])
    shown = sorted(below[:DESCENDANTS], key=lambda one: (one.generation, one.session.created_at, one.session.id))
    deepest = bool(shown) and shown[-1].generation == GENERATIONS
    return Lineage(
        session=session,
        ancestors=[Member(one, -number) for number, one in enumerate(above, 1)],
        descendants=shown,
        more_ancestors=more_ancestors,
        more_descendants=len(below) > DESCENDANTS or deepest,
        unknown_ancestor_id=unknown,
    )


def line_above(session: Session) -> tuple[list[Session], bool, str | None]:
    """The ancestors from the nearest up; whether there are more than are looked at; and the id of one that is named and not known."""
    found = [one.session for one in sorted(_members(_UP, [session.id, GENERATIONS]), key=lambda one: one.generation)]
    named = (found[-1] if found else session).parent_id
    if not named:
        return found, False, None
    return (found, True, None) if len(found) == GENERATIONS else (found, False, named)


def _members(query: str, parameters: list[str | int]) -> list[Member]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        generations: dict[str, int] = dict(cursor.fetchall())
    return [Member(row, generations[row.id]) for row in Session.objects.filter(id__in=list(generations))]
