"""What a test of a lost host looks at: where a session lives, whether a host counts as lost, and what was published."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.room import FleetRoom
from tests.gates.room import Subject
from tests.support.waiting import until

#: Longest waits of a gate, for a machine that emulates several others at once.
NOTICED_SECONDS, ANSWERS_SECONDS, ENDED_SECONDS = 90, 180, 60


@dataclass(frozen=True)
class Place:
    host_id: str
    state: str
    epoch: int


def place(subject: Subject) -> Place:
    room = fleet_of(subject)
    ((host_id, state, epoch),) = room.postgres.rows(
        "SELECT host_id, runtime_state, epoch FROM sessions_app_session WHERE id = %s", subject.id
    )
    return Place(str(host_id), str(state), int(str(epoch)))


def fleet_of(subject: Subject) -> FleetRoom:
    assert isinstance(subject.room, FleetRoom)
    return subject.room


def only(room: FleetRoom, host: HostProcess | None) -> None:
    """New sessions are placed on that host alone, or with None on any."""
    room.postgres.rows("UPDATE workers_host SET draining = %s AND id <> %s RETURNING id", host is not None, host.id if host else "")


def begun(room: FleetRoom, host: HostProcess, start: Callable[[], Subject]) -> Subject:
    """A session that was placed on that host."""
    only(room, host)
    subject = start()
    only(room, None)
    assert place(subject).host_id == host.id
    return subject


def is_lost(room: FleetRoom, host: HostProcess) -> bool:
    return bool(room.postgres.rows("SELECT id FROM workers_host WHERE id = %s AND lost_at IS NOT NULL", host.id))


def published(subject: Subject) -> list[str]:
    rows = fleet_of(subject).postgres.rows(
        "SELECT id FROM checkpoints_app_checkpoint WHERE session_id = %s AND state = 'published' ORDER BY id", subject.id
    )
    return [str(row[0]) for row in rows]


def goes_on_elsewhere(subject: Subject, left: Place) -> None:
    def there() -> bool:
        now = place(subject)
        return now.state == "running" and now.epoch > left.epoch and now.host_id != left.host_id

    until(there, ANSWERS_SECONDS, f"{subject.id} runs on another host than {left.host_id}")


def paused_in_mid_save(subject: Subject, owner: HostProcess) -> str:
    """A save has captured its moment and has not published it; every process of its host stands still. Returns the save's operation."""
    room = fleet_of(subject)
    for _ in range(10):
        save = subject.ask("checkpoint", {"Stop": False})
        until(lambda save=save: _state(room, save) in _CAPTURED, ANSWERS_SECONDS, "the save has captured its moment")  # type: ignore[misc]
        owner.pause()
        if _state(room, save) == "uploading":
            return save
        owner.resume()
        subject.ended(save)
    raise AssertionError("no save was met between its capture and its publication")


_CAPTURED = ("uploading", "published", "failed")


def _state(room: FleetRoom, save: str) -> str:
    rows = room.postgres.rows("SELECT state FROM checkpoints_app_checkpoint WHERE operation_id = %s", save)
    return str(rows[0][0]) if rows else ""
