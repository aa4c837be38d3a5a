"""What every machine driver's `exec` must do, as a part of the driver suite (tests/driver_suite.py), which gives the fixtures."""

import pytest

from tests.machine_kit import GUEST_SECONDS, run
from workers.machine.driver import MachineError


class ExecSuite:
    def test_a_command_returns_its_streams_and_its_exit_code(self, machine):
        result = machine.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_seconds=30, output_limit=1000)
        assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
        assert (result.truncated, result.timed_out) == (False, False)

    def test_arguments_reach_the_command_unchanged(self, machine):
        words = ["a b", "$HOME", "'\"", "*", "ünï", "-n", "line\nline", ""]
        result = machine.exec(["printf", "%s|", *words], timeout_seconds=30, output_limit=1000)
        assert result.stdout.decode() == "".join(f"{word}|" for word in words)

    def test_output_is_cut_at_the_limit_and_says_so(self, machine):
        result = machine.exec(["sh", "-c", "printf 123456789; printf 12345 >&2"], timeout_seconds=30, output_limit=5)
        assert (result.stdout, result.stderr, result.truncated) == (b"12345", b"12345", True)

    def test_output_without_end_ends_at_the_time_limit_with_its_beginning(self, machine):
        result = machine.exec(["sh", "-c", "while :; do echo yes; done"], timeout_seconds=1, output_limit=1000)
        assert (result.timed_out, result.truncated, result.exit_code) == (True, True, None)
        assert result.stdout.startswith(b"yes\nyes\n")
        assert len(result.stdout) == 1000

    def test_binary_output_comes_back_as_it_was(self, machine):
        result = machine.exec(["printf", r"\000\377\n\001"], timeout_seconds=30, output_limit=100)
        assert result.stdout == b"\x00\xff\n\x01"

    def test_a_command_ended_by_a_signal_has_the_shells_code_for_it(self, machine):
        assert machine.exec(["sh", "-c", "kill -9 $$"], timeout_seconds=30, output_limit=100).exit_code == 137

    def test_a_command_that_exits_with_the_wrappers_time_out_code_has_not_timed_out(self, machine):
        result = machine.exec(["sh", "-c", "exit 124"], timeout_seconds=30, output_limit=100)
        assert (result.exit_code, result.timed_out) == (124, False)

    def test_a_command_that_is_cancelled_ends_in_the_guest_and_the_guest_goes_on(self, machine):
        began = "echo $$ > /tmp/pid 2>/dev/null || echo $$ > pid; exec sleep 600"
        answers = iter([False])
        result = machine.exec(["sh", "-c", began], timeout_seconds=60, output_limit=100, cancelled=lambda: next(answers, True))
        assert result.cancelled
        assert not result.timed_out
        assert run(machine, "kill -0 $(cat /tmp/pid pid 2>/dev/null) 2>/dev/null || echo gone") == "gone"

    def test_a_program_that_does_not_exist_is_the_commands_failure_and_not_the_machines(self, machine):
        result = machine.exec(["/no/such/program"], timeout_seconds=30, output_limit=1000)
        assert result.exit_code not in (0, None)
        machine.ping(GUEST_SECONDS)

    @pytest.mark.parametrize("argv", [[], ["echo", "a\0b"]])
    def test_an_impossible_command_is_refused_before_it_reaches_the_guest(self, machine, argv):
        with pytest.raises(MachineError) as refusal:
            machine.exec(argv, timeout_seconds=30, output_limit=1000)
        assert refusal.value.code == "exec_failed"
