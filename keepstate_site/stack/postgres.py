"""A private PostgreSQL: unix socket only, data checksums, fsync on. Trust is the socket directory's: 0700, one user."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.home import Home, User

OLDEST = 15
DISTRIBUTION = Path("/usr/lib/postgresql")
INITDB_SECONDS = 120
READY_SECONDS = 180  # a crash recovery after a busy day takes its time
STOP_SECONDS = 30


@dataclass(frozen=True)
class Binaries:
    directory: Path
    major: int


def find() -> list[Binaries]:
    """Every usable installation, newest first."""
    candidates = [*DISTRIBUTION.glob("*/bin"), *(Path(entry) for entry in os.get_exec_path())]
    found: dict[int, Binaries] = {}
    for directory in candidates:
        if (directory / "initdb").exists() and (directory / "postgres").exists():
            major = _major(directory / "postgres")
            if major >= OLDEST:
                found.setdefault(major, Binaries(directory, major))
    return sorted(found.values(), key=lambda item: -item.major)


def _major(binary: Path) -> int:
    result = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=10, check=False)
    match = re.search(r"\(PostgreSQL\) (\d+)", result.stdout)
    return int(match.group(1)) if match else 0


def choose(data: Path) -> Binaries:
    """The newest installation, or for existing data the one that made it: PostgreSQL reads only its own major version's."""
    found = find()
    if not found:
        raise StackError(f"No PostgreSQL {OLDEST} or newer was found. Install the package `postgresql`, or set DATABASE_URL to a server.")
    made_by = data / "PG_VERSION"
    if not made_by.exists():
        return found[0]
    major = int(made_by.read_text())
    for binaries in found:
        if binaries.major == major:
            return binaries
    have = ", ".join(str(item.major) for item in found)
    raise StackError(
        f"{data} was made by PostgreSQL {major}, but only {have} is installed. Nothing was started and nothing changed. "
        f"Install postgresql-{major}, or dump with it and load into a new database."
    )


def create(home: Home, binaries: Binaries) -> Path:
    """The data directory, made if it does not exist. A death in the middle leaves a draft that the next start removes."""
    data = home.data / "postgres" / "data"
    if (data / "PG_VERSION").exists():
        return data
    draft = data.with_name("draft")
    shutil.rmtree(draft, ignore_errors=True)
    command = [
        "--pgdata",
        str(draft),
        "--username",
        "keepstate",
        "--auth",
        "trust",
        "--encoding",
        "UTF8",
        "--locale",
        "C.UTF-8",
        "--data-checksums",
    ]
    result = run_as(home.user, [str(binaries.directory / "initdb"), *command], cwd=home.data / "postgres", seconds=INITDB_SECONDS)
    if result.returncode:
        raise StackError(f"initdb failed with code {result.returncode}; no database was made.\n{result.stdout[-2000:]}")
    draft.rename(data)
    descriptor = os.open(data.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return data


def run_as(user: User | None, argv: Sequence[str], *, cwd: Path, seconds: float) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(argv),
        cwd=cwd,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


#: For data that nobody wants after the process that asked for it: a commit waits for no disk. It is written all the same
#: (synchronous_commit), so that a crash of the server takes nothing of what was committed; only a loss of power does.
PASSING = {"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "15s"}


def spec(home: Home, *, lasting: bool = True) -> Spec:
    """Prerequisite: `home.make`. Creates the data directory where there is none. Without `lasting`, a loss of power loses the data."""
    binaries = choose(home.data / "postgres" / "data")
    data = create(home, binaries)
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(home.sockets),
        "unix_socket_permissions": "0700",
        "fsync": "on",
        "full_page_writes": "on",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    } | ({} if lasting else PASSING)
    argv = [str(binaries.directory / "postgres"), "-D", str(data)]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]
    ask = [
        str(binaries.directory / "psql"),
        "--host",
        str(home.sockets),
        "--username",
        "keepstate",
        "--dbname",
        "postgres",
        "--no-psqlrc",
        "-Atq",
    ]
    return Spec(
        name="postgres",
        argv=argv,
        ready=lambda: _database_exists(home, ask),
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        cwd=data,
        user=home.user,
        ready_seconds=READY_SECONDS,
        stop_signal=signal.SIGINT,  # "fast": roll back, disconnect, checkpoint
        stop_seconds=STOP_SECONDS,
        death_signal=signal.SIGINT,
    )


def _database_exists(home: Home, ask: Sequence[str]) -> bool:
    """True once the server answers and our database is there; creates it the first time."""
    if not (home.sockets / ".s.PGSQL.5432").exists():
        return False
    found = run_as(home.user, [*ask, "-c", "SELECT 1 FROM pg_database WHERE datname = 'keepstate'"], cwd=home.sockets, seconds=10)
    if found.returncode == 0 and not found.stdout.strip():
        found = run_as(home.user, [*ask, "-c", "CREATE DATABASE keepstate", "-c", "SELECT 1"], cwd=home.sockets, seconds=30)
    return found.returncode == 0 and found.stdout.strip() == "1"
