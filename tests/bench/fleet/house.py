"""What the soak does and sees behind the service's back: its processes, and rows that no route tells."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from keepstate_site.demo.process import machine_pids
from tests.bench.fleet.measured import Way
from tests.gates.fleet.room import FleetRoom

PATIENCE_SECONDS = 60.0

_WAY = """
SELECT resume.host_id, coalesce(save.host_id, '') FROM sessions_app_operation resume
LEFT JOIN checkpoints_app_checkpoint saved ON saved.id = resume.response->>'checkpoint_id'
LEFT JOIN sessions_app_operation save ON save.id = saved.operation_id AND save.kind = 'checkpoint'
WHERE resume.id = %s
"""
#: How the move ended that began with this save, in the words of the service record, which names the hosts.
_MOVE = """
SELECT line.type, line.facts FROM sessions_app_servicerecord line, sessions_app_operation save
WHERE line.session_id = save.session_id AND line.type IN ('session.moved', 'session.move_failed')
  AND save.id = %s AND line.recorded_at > save.accepted_at ORDER BY line.id LIMIT 1
"""
#: And its resume: attempts, seconds until a worker claimed it, and until it ended.
_RESUME_OF_MOVE = """
SELECT resume.attempt, extract(epoch FROM resume.started_at - resume.accepted_at),
  extract(epoch FROM resume.finished_at - resume.accepted_at)
FROM sessions_app_operation resume, sessions_app_operation save
WHERE resume.session_id = save.session_id AND resume.kind = 'resume' AND resume.parameters->>'by' = 'moved'
  AND save.id = %s AND resume.accepted_at > save.accepted_at ORDER BY resume.accepted_at LIMIT 1
"""
_ACCELERATORS = "SELECT DISTINCT facts->>'accelerator' FROM checkpoints_app_pin ORDER BY 1"
_ATTEMPTS = "SELECT kind, attempt, count(*) FROM sessions_app_operation WHERE attempt > 0 GROUP BY kind, attempt ORDER BY kind, attempt"
#: Each with how many values it takes.
QUERIES = ((_WAY, 1), (_MOVE, 1), (_RESUME_OF_MOVE, 1), (_ATTEMPTS, 0), (_ACCELERATORS, 0))


class House:
    def __init__(self, fleet: FleetRoom) -> None:
        self.fleet = fleet

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Tried again while the database is away. Raises psycopg.Error once that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.fleet.postgres.rows(query, *values)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def host_of(self, session_id: str) -> str:
        found = self.rows("SELECT host_id FROM sessions_app_session WHERE id = %s", session_id)
        return found[0][0] if found else ""

    def sessions_of(self, host_id: str) -> list[str]:
        return [row[0] for row in self.rows("SELECT id FROM sessions_app_session WHERE host_id = %s", host_id)]

    def children_of(self, session_id: str) -> list[str]:
        query = "SELECT id FROM sessions_app_session WHERE parent_id = %s AND runtime_state <> 'deleted'"
        return [row[0] for row in self.rows(query, session_id)]

    def way_of(self, operation_id: str) -> Way:
        found = self.rows(_WAY, operation_id)
        return Way(*found[0]) if found else Way()

    def move_of(self, save: str) -> tuple[str, dict[str, Any]]:
        """Its event's type and facts; ("", {}) where it has none, for the resume that was to follow did not come about."""
        found = self.rows(_MOVE, save)
        return found[0] if found else ("", {})

    def resume_of_move(self, save: str) -> dict[str, Any]:
        """Empty where there is none."""
        found = self.rows(_RESUME_OF_MOVE, save)
        return dict(zip(("attempts", "claimed_after", "ended_after"), found[0], strict=True)) if found else {}

    def attempts(self) -> dict[str, dict[str, int]]:
        """Of the sessions that are there: operations by kind and by how often a worker had to begin them."""
        told: dict[str, dict[str, int]] = {}
        for kind, attempt, count in self.rows(_ATTEMPTS):
            told.setdefault(kind, {})[str(attempt)] = count
        return told

    def accelerators(self) -> list[str]:
        """That the hosts' machines run with."""
        return [row[0] for row in self.rows(_ACCELERATORS)]

    def kill_machine(self, session_id: str) -> int:
        """SIGKILL every hypervisor that runs for the session, on whichever host. How many they were."""
        killed = machine_pids(self.fleet.root, session_id)
        for pid in killed:
            kill(pid)
        return len(killed)

    @contextmanager
    def draining(self, host_id: str) -> Iterator[Callable[[], None]]:
        """The host takes no new work until this is left, or what it gives is called. Another that drains goes on draining."""
        here = "UPDATE workers_host SET draining = %s WHERE id = %s RETURNING id"

        def no_more() -> None:
            self.rows(here, False, host_id)

        self.rows(here, True, host_id)
        try:
            yield no_more
        finally:
            no_more()


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
