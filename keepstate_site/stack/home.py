"""Where PostgreSQL and Redis live and as whom they run.

PostgreSQL refuses to run as root, so root's stack gives both to an unprivileged user. That user must be able to reach the
data: where the checkout lies below a closed directory (/root/...), the data moves to /var/lib/keepstate/<instance>.
"""

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import Paths

CLOSED_CHECKOUTS = Path("/var/lib/keepstate")
SOCKET_BYTES = 107  # the kernel's limit for a unix socket's path
LONGEST_SOCKET = ".s.PGSQL.5432"


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Home:
    data: Path  # holds `postgres` and `redis`, owned by `user`
    sockets: Path  # 0700, owned by `user`
    user: User | None  # None: as whoever runs the stack

    @property
    def database_url(self) -> str:
        return f"postgresql://keepstate@/keepstate?host={self.sockets}"

    @property
    def redis_url(self) -> str:
        return f"unix://{self.sockets}/redis.sock?db=0"


def service_user() -> User | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(name, entry.pw_uid, entry.pw_gid)
    raise StackError("PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as. Nothing was started.")


def locate(paths: Paths, user: User | None) -> Home:
    """Where this root's data is, or would be. Creates nothing."""
    inside, outside = paths.root / "services", CLOSED_CHECKOUTS / paths.instance
    data = outside if user and (outside.exists() or not can_enter(user, paths.root)) else inside
    if data == outside and inside.exists():
        raise StackError(
            f"{inside} holds this stack's data, but the user {user.name if user else '?'} can no longer enter it. "
            f"Nothing was started. Let others traverse the directories above it (chmod o+x) and start again."
        )
    return Home(data, sockets(data, paths.instance), user)


def sockets(data: Path, instance: str) -> Path:
    near = data / "sockets"
    if len(os.fsencode(near / LONGEST_SOCKET)) <= SOCKET_BYTES:
        return near
    if os.geteuid() == 0:
        return Path("/run") / f"keepstate-{instance}"
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"keepstate-{os.geteuid()}-{instance}"  # noqa: S108  its owner and mode are checked


def make(home: Home, paths: Paths) -> None:
    """Create the directories. Refuses a socket directory that someone else made, and data that another root uses."""
    home.data.mkdir(mode=0o755, parents=True, exist_ok=True)
    _claim(home.data, paths)
    for directory in (home.data / "postgres", home.data / "redis", home.sockets):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.user and directory.lstat().st_uid == 0:
            os.chown(directory, home.user.uid, home.user.gid, follow_symlinks=False)
        facts = directory.lstat()
        owner = home.user.uid if home.user else os.geteuid()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != owner or facts.st_mode & 0o077:
            raise StackError(f"{directory} is not a private directory of its service's user (uid {owner}, mode 0700). Nothing was started.")


def _claim(data: Path, paths: Paths) -> None:
    """Only data outside the root needs this: a copied checkout must not start a second server on it."""
    if data.is_relative_to(paths.root):
        return
    owner = data / "root"
    if owner.exists():
        other = Path(owner.read_text().strip())
        other_id = other / "instance_id"
        if other != paths.root and other_id.exists() and other_id.read_text().strip() == paths.instance:
            raise StackError(
                f"{paths.root} is a copy of {other}, whose database is in {data}. Nothing was started. "
                f"Remove {paths.root / 'instance_id'} to give the copy a database of its own."
            )
    owner.write_text(f"{paths.root}\n")


def can_enter(user: User, directory: Path) -> bool:
    """Whether that user reaches the directory, asked of the kernel as that user."""
    probe = subprocess.run(
        ["/usr/bin/test", "-x", str(directory)], user=user.uid, group=user.gid, extra_groups=[], cwd="/", check=False, timeout=10
    )
    return probe.returncode == 0
