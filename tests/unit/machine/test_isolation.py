"""A machine's process has a user, a root and limits of its own. Seen from inside, by a shell in the place of a hypervisor."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from workers.machine.process import alive, cgroup, spawn, uids
from workers.machine.process.isolation import Isolation
from workers.machine.process.mounts import View
from workers.machine.process.spawn import SHELL, Confined, Terms
from workers.machine.qemu.confine import LIBRARIES

LIBRARY_PATHS = tuple(path for path in map(Path, LIBRARIES) if path.exists())
UID = 1_900_060_000
READY = Isolation().wanted()
needs_root = pytest.mark.skipif(not READY, reason="isolating a process needs root and its capabilities")


def said(runtime: Path, script: str, terms: Terms) -> str:
    """What the script prints, started as a machine is."""
    runtime.mkdir(exist_ok=True)
    lock = alive.acquire(runtime)
    assert lock is not None
    reader, writer = os.pipe()
    try:
        pid = spawn.spawn([str(SHELL.resolve()), "-c", f"exec >&2; {script}"], runtime, lock, writer, terms)
    finally:
        os.close(lock)
        os.close(writer)
    with os.fdopen(reader) as output:
        text = output.read()
    spawn.reap(pid, 30)
    return text.strip()


def confined(runtime: Path, tmp_path: Path, *, files: tuple[Path, ...] = ()) -> Terms:
    isolation = Isolation(directory=tmp_path / "isolation")
    isolation.mount_point.mkdir(parents=True, exist_ok=True)
    runtime.mkdir()
    os.chown(runtime, 0, UID)
    runtime.chmod(0o710)
    tools = tuple(Path(path).resolve() for name in ("ls", "cat", "id", "rm") if (path := shutil.which(name)))
    links = tuple(Path(path) for name in ("ls", "cat", "id", "rm") if (path := shutil.which(name)))
    view = View(programs=(*LIBRARY_PATHS, SHELL.resolve(), *tools, *links), files=files, writable=(runtime,), devices=(Path(os.devnull),))
    return Terms(confined=Confined(UID, (), view, isolation.mount_point))


@needs_root
def test_it_runs_as_its_own_user_in_no_other_group(tmp_path: Path) -> None:
    assert said(tmp_path / "m", "id -u; id -g; id -G", confined(tmp_path / "m", tmp_path)).split() == [str(UID)] * 3


@needs_root
def test_it_sees_nothing_of_the_host_but_what_it_was_given(tmp_path: Path) -> None:
    other, given = tmp_path / "other", tmp_path / "given"
    other.mkdir()
    for file in (other / "secret", given):
        file.write_text("content")
    script = f"cat /etc/shadow /etc/passwd {other}/secret; ls /proc /home {other}; cat {given}; echo; ls /"
    seen = said(tmp_path / "m", script, confined(tmp_path / "m", tmp_path, files=(given,)))
    assert seen.count("No such file or directory") == 6, seen
    assert seen.splitlines()[6] == "content"
    assert not {"etc/shadow", "home", "proc", "root", "var"} & set(seen.splitlines()[7:])


@needs_root
def test_it_writes_neither_to_what_it_may_read_nor_anywhere_else(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("content")
    given.chmod(0o666)
    script = f"echo x > {given}; echo x > /new; echo x > /usr/lib/new; echo x > {tmp_path}/new"
    seen = said(tmp_path / "m", script, confined(tmp_path / "m", tmp_path, files=(given,)))
    assert len(seen.splitlines()) == 4
    assert given.read_text() == "content"
    assert not (tmp_path / "new").exists()


@needs_root
def test_it_changes_its_own_files_and_no_name_in_its_directory(tmp_path: Path) -> None:
    """A name of its own making would be read, or written through, by the worker, which is root."""
    runtime = tmp_path / "m"
    terms = confined(runtime, tmp_path)
    (runtime / "machine.json").write_text("record")
    (runtime / "overlay").write_text("")
    uids.give(runtime / "overlay")
    script = "echo mine > overlay; echo x > machine.json; rm -f machine.json overlay; echo x > new; cat machine.json; ls"
    said(runtime, script, terms)
    assert (runtime / "overlay").read_text() == "mine\n"
    assert (runtime / "machine.json").read_text() == "record"
    assert sorted(path.name for path in runtime.iterdir()) == ["alive.lock", "machine.json", "overlay"]


@needs_root
def test_the_host_itself_sees_none_of_a_machines_mounts(tmp_path: Path) -> None:
    assert said(tmp_path / "m", "true; echo done", confined(tmp_path / "m", tmp_path)) == "done"
    seen = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(tmp_path) in line]
    assert seen == []
    assert os.getcwd() == str(Path.cwd())


def test_a_file_that_would_grow_beyond_its_limit_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 300 ] && echo '" + "x" * 1000 + "' >> file; do i=$((i+1)); done; echo ended by itself"
    assert said(tmp_path / "m", script, Terms(file_bytes=64 * 1024)).endswith("ended by itself")
    assert (tmp_path / "m" / "file").stat().st_size <= 64 * 1024


def test_no_two_live_holders_have_the_same_id_and_an_ended_one_gives_it_back(tmp_path: Path) -> None:
    first, second = uids.take(5000, 2, tmp_path), uids.take(5000, 2, tmp_path)
    assert (first.uid, second.uid) == (5000, 5001)
    with pytest.raises(uids.NoneFree):
        uids.take(5000, 2, tmp_path)
    with subprocess.Popen(["sleep", "600"], pass_fds=(first.lock_fd,)) as machine:
        first.close()
        with pytest.raises(uids.NoneFree):
            uids.take(5000, 2, tmp_path)
        machine.kill()
    again = uids.take(5000, 2, tmp_path)
    assert again.uid == 5000
    again.close()
    second.close()


def test_isolation_that_is_off_is_not_wanted() -> None:
    assert not Isolation(mode="off").wanted()


def test_required_isolation_that_is_not_possible_is_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(RuntimeError, match="cannot be isolated"):
        Isolation(mode="required", directory=blocked).wanted()


def test_a_machines_group_bounds_its_memory_and_its_processes(tmp_path: Path) -> None:
    cgroup.enclose(tmp_path, "s.1", 4711, 1 << 30, emulated=False)
    group = tmp_path / "machine-s.1"
    assert (group / "memory.max").read_text() == str((1 << 30) + (256 << 20))
    assert (group / "cgroup.procs").read_text() == "4711"
    assert int((group / "pids.max").read_text()) > 64


def test_groups_of_machines_that_are_gone_are_removed_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "machine-gone.1").mkdir()
    cgroup.enclose(tmp_path, "s.1", 4711, 1 << 30, emulated=True)
    assert [path.name for path in tmp_path.glob("machine-*")] == ["machine-s.1"]


def test_a_directory_that_is_no_delegated_group_is_told(tmp_path: Path) -> None:
    assert "not a cgroup v2 directory" in str(cgroup.usable(tmp_path))
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert "pids" in str(cgroup.usable(tmp_path))
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    assert cgroup.usable(tmp_path) is None


def test_a_machine_that_can_have_no_group_is_refused_by_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no control group: .*absent is not a cgroup v2 directory"):
        cgroup.enclose(tmp_path / "absent", "s.1", 4711, 1 << 30, emulated=False)
