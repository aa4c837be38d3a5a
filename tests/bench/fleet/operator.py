"""Moves that an operator asks for: the service behind `manage.py host move`, in one process with the fleet's settings for all of them.

The command itself would start Django for each move. `python -m tests.bench.fleet.operator` reads a session's id from each line, and answers
each with a line of JSON: the operation of the move's save, or why there is none.
"""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from keepstate_site.stack.child import die_with_parent
from keepstate_site.stack.paths import PROJECT
from tests.bench.fleet.asking import Outcome
from tests.gates.fleet.room import FleetRoom


class Operator:
    """Prerequisite: made on the main thread, with which its process ends. Any thread may ask."""

    def __init__(self, fleet: FleetRoom) -> None:
        self._lock = threading.Lock()
        with (fleet.root / "log" / "operator.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.fleet.operator"],
                cwd=PROJECT,
                env=settings_of(fleet.environment, fleet.root),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def move(self, session_id: str) -> Outcome:
        """What was refused; or, with `ok`, the operation that its save is, which may have ended by then.

        `ks_unavailable`: the database went while it was asked for, and it may have been accepted all the same.
        """
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{session_id}\n")
            self._process.stdin.flush()
            told = json.loads(self._process.stdout.readline() or '{"code": "ended", "message": "the operator\'s process has ended"}')
        return Outcome("code" not in told, None, told.get("code", ""), told.get("message", ""), told.get("operation_id", ""))


def settings_of(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """For a process that looks at the fleet as one of its own."""
    return {**environment, "KEEPSTATE_VAR": str(root), "DJANGO_SETTINGS_MODULE": "keepstate_site.settings"}


def main() -> None:
    import django

    django.setup()
    from django.db import close_old_connections

    from sessions_app.errors import ServiceError
    from sessions_app.models import Session
    from sessions_app.services import by_operator
    from sessions_app.services.database import AWAY

    for line in sys.stdin:
        close_old_connections()
        try:
            told = {"operation_id": by_operator.move(Session.objects.get(id=line.strip()), "soak").id}
        except Session.DoesNotExist:
            told = {"code": "ks_not_found", "message": "there is no such session"}
        except ServiceError as refusal:
            told = {"code": refusal.code, "message": refusal.message}
        except AWAY as error:
            told = {"code": "ks_unavailable", "message": type(error).__name__}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
