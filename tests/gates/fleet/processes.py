"""The processes of a fleet's stack, found in /proc by what the kernel knows of them."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.waiting import until

ENDS_SECONDS = 30


def of_stack(root: Path) -> list[int]:
    """Every process of the stack below this root: its supervisors, what they started, machines, and what serves their memory."""
    return [pid for pid in _all() if _has(pid, f"KEEPSTATE_VAR={root}") or _lives_below(pid, root / "host")]


def of_host(root: Path, host_id: str) -> list[int]:
    """The same of one host. Its supervisor has the host's id in its environment too."""
    return [
        pid
        for pid in _all()
        if (_has(pid, f"KEEPSTATE_VAR={root}") and _has(pid, f"KEEPSTATE_HOST_ID={host_id}")) or _lives_below(pid, root / "host" / host_id)
    ]


def machines_of(root: Path, host_id: str) -> list[int]:
    """The hypervisors: each works in its machine's runtime directory."""
    return [pid for pid in _all() if _works_in(pid, root / "host" / host_id / "machines")]


def descendants(pid: int) -> list[int]:
    """The process, and all that it and those have started."""
    children: dict[int, list[int]] = {}
    for one in _all():
        children.setdefault(_parent(one), []).append(one)
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def words(pid: int) -> list[str]:
    """Its command line; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def stands(pid: int) -> bool:
    """Whether it is stopped, or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t", "Z", "X")
    except OSError:
        return True


def kill_all(find: Callable[[], list[int]]) -> int:
    """SIGKILL whatever `find` finds, until it finds nothing: what is killed may have started something a moment before. How many it was."""
    killed: set[int] = set()

    def none_left() -> bool:
        found = find()
        killed.update(found)
        send(found, signal.SIGKILL)
        return not found

    until(none_left, ENDS_SECONDS, "all of its processes are gone")
    return len(killed)


def stop_all(find: Callable[[], list[int]]) -> None:
    """SIGSTOP, until every process that `find` finds stands still."""

    def all_stand() -> bool:
        moving = [pid for pid in find() if not stands(pid)]
        send(moving, signal.SIGSTOP)
        return not moving

    until(all_stand, ENDS_SECONDS, "all of its processes stand still")


def continue_all(find: Callable[[], list[int]]) -> None:
    send(find(), signal.SIGCONT)


def send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _parent(pid: int) -> int:
    """0 for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _all() -> Iterator[int]:
    return map(int, filter(str.isdecimal, os.listdir("/proc")))


def _has(pid: int, setting: str) -> bool:
    """In the environment that it was started with. A dead process that nobody has collected has none."""
    try:
        return setting.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _lives_below(pid: int, directory: Path) -> bool:
    """It works there, or was told of a place there: the process of a lazy image has nothing in its environment."""
    return _works_in(pid, directory) or any(word.startswith(f"{directory}/") for word in words(pid))


def _works_in(pid: int, directory: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(directory.resolve())
    except OSError:
        return False
