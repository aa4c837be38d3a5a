"""What a session is to begin with: unpacked in its first machine before the session counts as running."""

from typing import Any

from sessions_app.errors import IntegrityFailed, StartFailed
from sessions_app.models import Workspace
from sessions_app.services import workspace
from sessions_app.services.database import give_back_connection
from workers.files.refusal import FileRefused
from workers.files.unpacking import unpack
from workers.machine.driver import Machine, MachineError
from workers.machine.script import RunsScripts
from workers.operations.work import Work

_NEXT = "Delete the session with force=1, upload the archive again and start another."


def fill(work: Work, machine: Machine) -> Workspace | None:
    """What was unpacked, or None where nothing was to be. Raises StartFailed (ks_workspace_not_unpacked), Cancelled, LeaseLost.

    An attempt that died is done again from the beginning, in a machine of its own: the archive is kept until that machine is the session's.
    """
    found = workspace.of_session(work.session)
    if found is None:
        return None
    if not isinstance(machine, RunsScripts):
        raise _failed("this host's machines take no files")

    def between() -> None:
        work.keeper.check()
        give_back_connection()  # a transfer takes as long as the guest does

    try:
        unpack(machine, workspace.parts(found), found.stored_bytes, found.stored_sha256, between=between)
    except (FileRefused, MachineError, IntegrityFailed) as error:
        raise _failed(str(error)) from error
    return found


def facts_of(found: Workspace) -> dict[str, Any]:
    return {"files": found.files, "bytes": found.content_bytes, "workspace_id": found.id, "sha256": found.sha256}


def _failed(why: str) -> StartFailed:
    return StartFailed(
        f"The session's workspace was not unpacked: {why} The machine was ended.", next_action=_NEXT, code="ks_workspace_not_unpacked"
    )
