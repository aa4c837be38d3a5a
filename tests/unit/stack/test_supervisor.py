"""The supervisor on real processes: order, readiness, restart, stop, and what happens when it is killed itself."""

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import PROJECT
from keepstate_site.stack.supervisor import Supervisor
from tests.support.waiting import until, until_gone


def shell(name: str, script: str, directory: Path, ready: str | None = None, **more) -> Spec:
    """A process that counts as ready once the file `ready` has something in it (None: at once). A shell makes a file before it fills it."""
    return Spec(
        name=name,
        argv=["/bin/sh", "-c", script],
        ready=lambda: ready is None or filled(directory / ready),
        env={"PATH": os.environ["PATH"]},
        cwd=directory,
        **more,
    )


def filled(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    (tmp_path / "log").mkdir()
    made = Supervisor(tmp_path / "log", said.append)
    yield made
    made.stop()


def test_a_phase_starts_only_after_the_one_before_it_is_ready(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.start([shell("first", "echo up >one; exec sleep 60", tmp_path, ready="one")])
    supervisor.start([shell("second", "cat one >two; exec sleep 60", tmp_path, ready="two")])
    assert (tmp_path / "two").read_text() == "up\n"


def test_a_process_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path, supervisor: Supervisor) -> None:
    with pytest.raises(StackError, match=r"first ended with code 3 before it was ready.(?s:.)*no such luck"):
        supervisor.start([shell("first", "echo no such luck; exit 3", tmp_path, ready="never")])


def test_a_process_that_never_gets_ready_is_told(tmp_path: Path, supervisor: Supervisor) -> None:
    with pytest.raises(StackError, match="first was not ready after 0 s"):
        supervisor.start([shell("first", "exec sleep 60", tmp_path, ready="never", ready_seconds=0.2)])


def test_a_process_that_dies_is_started_again(tmp_path: Path, supervisor: Supervisor, said: list[str]) -> None:
    supervisor.start([shell("worker", "echo $$ >>pids; exec sleep 60", tmp_path, ready="pids")])
    os.kill(int((tmp_path / "pids").read_text()), signal.SIGKILL)
    supervisor.run_until(lambda: len((tmp_path / "pids").read_text().split()) == 2)
    assert "worker ended with code -9" in said[0]


def test_a_process_that_keeps_dying_is_started_ever_more_slowly(tmp_path: Path, supervisor: Supervisor, said: list[str]) -> None:
    supervisor.start([shell("worker", "exit 1", tmp_path)])
    supervisor.run_until(lambda: len(said) == 3)
    assert [text.split(" again in ")[1].split(" s")[0] for text in said] == ["0.1", "0.2", "0.4"]


def test_a_process_that_is_refused_for_good_stays_ended_and_the_others_are_kept_running(
    tmp_path: Path, supervisor: Supervisor, said: list[str]
) -> None:
    script = "echo $$ >>pids; until [ -e go ]; do sleep 0.02; done; echo 'CommandError: It was retired.'; echo bye; exit 78"
    others = shell("other", "echo $$ >>others; exec sleep 60", tmp_path, ready="others")
    supervisor.start([shell("worker", script, tmp_path, ready="pids", final_codes=frozenset({78})), others])
    (tmp_path / "go").touch()
    supervisor.run_until(lambda: bool(supervisor.refused))
    assert supervisor.refused == ["worker was refused: It was retired."]
    os.kill(int((tmp_path / "others").read_text()), signal.SIGKILL)
    supervisor.run_until(lambda: len((tmp_path / "others").read_text().split()) == 2)
    assert len((tmp_path / "pids").read_text().split()) == 1
    assert ["It is not started again" in text for text in said] == [True, False]


def test_phases_stop_in_the_reverse_order(tmp_path: Path, supervisor: Supervisor) -> None:
    for name in ("database", "worker"):
        script = f"trap 'echo {name} >>order; exit 0' TERM; echo up >{name}; while :; do sleep 0.05; done"
        supervisor.start([shell(name, script, tmp_path, ready=name)])
    supervisor.stop()
    assert (tmp_path / "order").read_text().split() == ["worker", "database"]


def test_a_process_that_ignores_the_signal_is_killed_at_its_deadline(tmp_path: Path, supervisor: Supervisor, said: list[str]) -> None:
    supervisor.start(
        [shell("stubborn", "trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done", tmp_path, ready="pid", stop_seconds=0.3)]
    )
    pid = int((tmp_path / "pid").read_text())
    supervisor.stop()
    until_gone(pid, 60)
    assert said == ["stubborn did not stop in time and is killed"]


def test_a_second_signal_shortens_the_deadlines(tmp_path: Path, supervisor: Supervisor, said: list[str]) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    supervisor.catch_signals()
    try:
        script = "trap 'kill -TERM $PPID' TERM; echo up >up; while :; do sleep 0.05; done"
        supervisor.start([shell("stubborn", script, tmp_path, ready="up", stop_seconds=100_000)])
        supervisor.signals = 1  # the signal that asked for the stop
        supervisor.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert supervisor.signals == 2
    assert said == ["stubborn did not stop in time and is killed"]


def test_a_process_with_a_session_of_its_own_outlives_the_stop(tmp_path: Path, supervisor: Supervisor) -> None:
    """As a machine's QEMU does: only its parent is the supervisor's to end."""
    supervisor.start(
        [shell("worker", "setsid sh -c 'echo $$ >machine; exec sleep 60' >/dev/null 2>&1 & exec sleep 60", tmp_path, ready="machine")]
    )
    until((tmp_path / "machine").read_text, 60, "the machine wrote its id")
    machine = int((tmp_path / "machine").read_text())
    supervisor.stop()
    os.kill(machine, signal.SIGKILL)  # raises ProcessLookupError if the stop had ended it


KILLED = """
import sys
from pathlib import Path
from tests.unit.stack.test_supervisor import shell
from keepstate_site.stack.supervisor import Supervisor
place = Path(sys.argv[1])
supervisor = Supervisor(place, print)
script = "setsid sh -c 'echo $$ >machine; exec sleep 300' >/dev/null 2>&1 & echo $$ >worker; exec sleep 300"
supervisor.start([shell("worker", script, place, ready="machine")])
supervisor.run_until(lambda: False)
"""


def test_processes_die_with_a_killed_supervisor_and_machines_do_not(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=PROJECT)
    until(lambda: filled(tmp_path / "machine") and filled(tmp_path / "worker"), 60, "both processes run")
    worker, machine = (int((tmp_path / name).read_text()) for name in ("worker", "machine"))
    process.kill()
    process.wait(60)
    until_gone(worker, 60)
    os.kill(machine, signal.SIGKILL)  # raises ProcessLookupError if it had died too


def test_a_process_that_starts_again_inherits_its_listener_though_nobody_else_keeps_it(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.start([serving(tmp_path)])
    gc.collect()
    child = supervisor.phases[0][0]
    assert child.process is not None
    child.process.kill()
    told = tmp_path / "told"
    supervisor.run_until(lambda: len(told.read_text().split()) > 1)
    assert told.read_text().split() == ["True", "True"]


def serving(directory: Path) -> Spec:
    """It tells at each start whether what it inherited is a socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    tell = f"print(stat.S_ISSOCK(os.fstat({listener.fileno()}).st_mode), file=open('told', 'a'), flush=True)"
    return Spec(
        name="serving",
        argv=[sys.executable, "-c", f"import os, stat, time; {tell}; time.sleep(60)"],
        ready=lambda: filled(directory / "told"),
        env={"PATH": os.environ["PATH"]},
        cwd=directory,
        inherits=(listener,),
    )
