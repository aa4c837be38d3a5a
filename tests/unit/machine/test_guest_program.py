"""Short programs of ours in the guest: the guest's account of them is hostile input."""

import time
from typing import Any

import pytest

from workers.machine.driver import MachineError
from workers.machine.qemu.guest_channel import GuestRefused, NoAnswer
from workers.machine.qemu.guest_program import run_program


class Guest:
    """Answers with what it was given, in turn; the last answer again and again."""

    def __init__(self, *answers: Any):
        self.answers: list[Any] = list(answers)
        self.asked: list[tuple[str, Any]] = []

    def request(self, command: str, arguments: Any, deadline: float, response_limit: int = 0) -> Any:
        self.asked.append((command, arguments))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(guest: Guest, seconds: float = 5.0, **options: Any) -> None:
    run_program(guest, "/bin/true", ["a"], time.monotonic() + seconds, **options)  # type: ignore[arg-type]


def test_it_is_waited_for_and_its_input_is_handed_over() -> None:
    guest = Guest({"pid": 7}, {"exited": False}, {"exited": True, "exitcode": 0})
    run(guest, data=b"\x00seed")
    assert guest.asked[0][1]["input-data"] == "AHNlZWQ="
    assert [command for command, _ in guest.asked] == ["guest-exec", "guest-exec-status", "guest-exec-status"]


def test_what_a_failed_program_said_is_told_cut_and_printable() -> None:
    guest = Guest({"pid": 7}, {"exited": True, "exitcode": 1, "err-data": "bm8bWzMxbXJvb20K"})
    with pytest.raises(MachineError, match=r"exit code 1 in the guest: no\[31mroom\.") as failure:
        run(guest)
    assert failure.value.code == "exec_failed"


@pytest.mark.parametrize(
    "answers",
    [
        ({},),
        ("pid",),
        ({"pid": True},),
        ({"pid": 7}, None),
        ({"pid": 7}, []),
        ({"pid": 7}, {"exited": True}),
        ({"pid": 7}, {"exited": True, "exitcode": "0"}),
        ({"pid": 7}, {"exited": True, "exitcode": 1, "err-data": {}}),
        (GuestRefused("not allowed"),),
    ],
)
def test_an_account_that_makes_no_sense_is_never_taken_for_success(answers: tuple[Any, ...]) -> None:
    with pytest.raises(MachineError) as failure:
        run(Guest(*answers))
    assert failure.value.code == "exec_failed"


def test_a_program_that_does_not_end_is_no_answer() -> None:
    with pytest.raises(NoAnswer):
        run(Guest({"pid": 7}, {"exited": "soon"}), seconds=0.02)
