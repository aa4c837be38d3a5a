"""The service record: what the service did for whom, kept beyond every deletion. Values, no customer content."""

from typing import Any

from sessions_app.models import ServiceRecord
from sessions_app.states import RecordKind


def write(
    kind: RecordKind, type_: str, *, account_id: str, session_id: str = "", actor: str = "", facts: dict[str, Any] | None = None
) -> ServiceRecord:
    """Prerequisite: inside the transaction of what the line tells, so that neither exists without the other.

    `actor` is who did it: an operator's user name, a token's id, `policy`, `beat`. `facts` hold numbers, ids and words of ours alone.
    """
    return ServiceRecord.objects.create(
        kind=kind, type=type_, account_id=account_id, session_id=session_id, actor=actor[:100], facts=facts or {}
    )
