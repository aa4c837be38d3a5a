"""The wrapper that bounds what runs in a guest: time and output, and nothing left behind."""

import time

import pytest

from tests.integration.guest.plain_machine import ANSWER_SECONDS, PlainMachine, Ran

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]


def sh(machine: PlainMachine, script: str, *, seconds: float = 30, limit: int = 1000) -> Ran:
    return machine.wrapped(seconds, limit, "sh", "-c", script)


def alive(machine: PlainMachine, marker: str) -> bool:
    """Whether a process has this word in its arguments."""
    return machine.shell(f"grep -la '{marker[:-1]}[{marker[-1]}]' /proc/[0-9]*/cmdline 2>/dev/null | grep -v self") != ""


def test_streams_stay_apart_and_the_exit_code_comes_through(machine: PlainMachine):
    ran = sh(machine, "echo out; echo err >&2; exit 7")
    assert (ran.code, ran.stdout, ran.stderr) == (7, b"out\n", b"err\n")


def test_a_signal_is_128_and_its_number(machine: PlainMachine):
    assert sh(machine, "kill -KILL $$").code == 137


def test_a_program_that_is_not_there_is_127(machine: PlainMachine):
    assert machine.wrapped(5, 100, "/no/such/program").code == 127


def test_arguments_come_through_unchanged(machine: PlainMachine):
    words = ["a b", "", "*", "-n", "$HOME", "'\"", "new\nline", "ünïcode"]
    ran = machine.wrapped(5, 1000, "sh", "-c", 'printf "<%s>" "$@"', "sh", *words)
    assert ran.stdout.decode() == "".join(f"<{word}>" for word in words)


def test_it_runs_in_its_own_session_in_root_home_without_input(machine: PlainMachine):
    ran = sh(machine, "pwd; cat; read -r _ _ _ _ _ session _ </proc/$$/stat; [ $session = $$ ] && echo leader; umask")
    assert ran.stdout == b"/root\nleader\n0022\n"


def test_the_program_has_no_descriptor_beyond_its_streams(machine: PlainMachine):
    assert sh(machine, "ls /proc/self/fd | tr '\\n' ' '").stdout in (b"0 1 2 3 ", b"0 1 2 3 4 ")  # ls itself opens the directory


def test_output_is_cut_one_byte_beyond_the_limit_on_each_stream(machine: PlainMachine):
    ran = sh(machine, "head -c 5000 /dev/zero; head -c 6000 /dev/zero >&2; exit 4", limit=1500)
    assert (ran.code, len(ran.stdout), len(ran.stderr)) == (4, 1501, 1501)


def test_output_of_exactly_the_limit_is_whole(machine: PlainMachine):
    assert len(sh(machine, "head -c 1024 /dev/zero", limit=1024).stdout) == 1024


def test_a_program_that_says_more_than_the_limit_is_not_killed_by_it(machine: PlainMachine):
    ran = sh(machine, "head -c 3000000 /dev/zero; echo alive >&2", limit=100)
    assert (ran.code, len(ran.stdout), ran.stderr) == (0, 101, b"alive\n")


def test_binary_output_is_kept_byte_for_byte(machine: PlainMachine):
    ran = sh(machine, "printf '\\000\\001\\377\\n\\r\\n'; printf x")
    assert ran.stdout == b"\x00\x01\xff\n\r\nx"


def test_a_timeout_ends_the_whole_group_and_is_124(machine: PlainMachine):
    ran = sh(machine, "echo before; sleep 7001 & sleep 7002", seconds=6)
    assert (ran.code, ran.stdout) == (124, b"before\n")
    assert not alive(machine, "7001")
    assert not alive(machine, "7002")


def test_a_program_that_ignores_term_is_killed(machine: PlainMachine):
    ran = sh(machine, "trap '' TERM; echo deaf; while :; do sleep 0.1; done; : 7003", seconds=6)
    assert (ran.code, ran.stdout) == (124, b"deaf\n")
    assert not alive(machine, "7003")


def test_a_group_member_that_ignores_term_is_killed_though_the_leader_ended(machine: PlainMachine):
    ran = sh(machine, "(trap '' TERM; while :; do sleep 0.1; done; : 7004) & sleep 60", seconds=1)
    assert ran.code == 124
    assert not alive(machine, "7004")


def test_a_program_that_ends_at_the_timeout_by_itself_has_still_timed_out(machine: PlainMachine):
    assert sh(machine, "trap 'exit 0' TERM; sleep 60 & wait", seconds=1).code == 124


def test_a_background_child_with_open_streams_does_not_hold_the_caller_up(machine: PlainMachine):
    ran = sh(machine, "sleep 7005 & echo started; exit 5", seconds=ANSWER_SECONDS)
    assert (ran.code, ran.stdout) == (5, b"started\n")
    assert alive(machine, "7005"), "the child goes on"


def test_a_background_child_may_go_on_writing_more_than_the_limit(machine: PlainMachine):
    writes = "head -c 100000 /dev/zero; head -c 100000 /dev/zero && echo written >/run/result"
    script = f"(until [ -e /run/go ]; do sleep 0.05; done; {writes}) & exit 0"
    assert sh(machine, script, limit=100).code == 0
    machine.shell("echo >/run/go")
    deadline = time.monotonic() + ANSWER_SECONDS
    while machine.shell("cat /run/result 2>/dev/null") != "written\n":
        assert time.monotonic() < deadline, "the child died of its closed stream"
        time.sleep(0.05)


def test_wrong_use_is_125(machine: PlainMachine):
    for arguments in (["5"], ["5", "10"], ["soon", "10", "true"], ["5", "-1", "true"]):
        assert machine.run("/usr/lib/keepstate/exec", *arguments).code == 125


def test_nothing_is_left_behind(machine: PlainMachine):
    sh(machine, "echo a")
    sh(machine, "sleep 60", seconds=1)
    assert machine.shell("cd /run/keepstate; ls | grep -v relay") == ""
    assert not alive(machine, "sleep 60")


def test_what_a_killed_wrapper_left_is_removed_by_the_next(machine: PlainMachine):
    machine.shell("mkdir -p /run/keepstate/exec.99999999 && echo >/run/keepstate/exec.99999999/out.kept")
    sh(machine, "true")
    assert machine.shell("cd /run/keepstate; ls | grep -v relay") == ""


def test_calls_at_the_same_time_do_not_mix(machine: PlainMachine):
    pids = []
    for n in range(4):
        argv = ["30", "100", "sh", "-c", f"sleep 0.2; echo {n}; exit {n}"]
        pids.append(machine.call("guest-exec", path="/usr/lib/keepstate/exec", arg=argv, **{"capture-output": True})["pid"])
    assert [machine.result(pid) for pid in pids] == [Ran(n, None, f"{n}\n".encode(), b"") for n in range(4)]
