"""Where several processes test, each has a copy of one database that was migrated once: to migrate takes seconds of processor time."""

import fcntl
from pathlib import Path

from django.db import connection


def use_copy(worker: str, shared: Path) -> None:
    """The test database of this process, whose name ends with its worker's, will be made as a copy. `shared` is a directory of this run.

    The first process makes what is copied, and the others wait for it. It stays on the server, and the next run makes it anew.
    """
    test = connection.settings_dict["TEST"]
    own = test["NAME"]
    original = own.removesuffix(worker) + "original"
    made = shared / "database.made"
    with open(shared / "database.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            test["NAME"] = original
            _make_test_database()
            test["NAME"] = own
            made.touch()
    test |= {"TEMPLATE": original, "MIGRATE": False}


def _make_test_database() -> None:
    """By the name that the settings give it. Nobody may be connected to what is copied."""
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    connection.close()
    connection.settings_dict["NAME"] = name
