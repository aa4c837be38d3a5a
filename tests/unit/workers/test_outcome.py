"""What is said of an operation that did not come to its end, for every kind there is."""

import pytest

from sessions_app.services.outcome import unfinished
from sessions_app.states import OperationKind


@pytest.mark.parametrize("kind", list(OperationKind))
def test_every_kind_says_what_is_known_and_what_to_do(kind: str) -> None:
    error = unfinished(kind, "It stopped.")
    assert error.message.startswith("It stopped. ")
    assert error.next_action
    assert error.word == "ks_internal"


@pytest.mark.parametrize("kind", [OperationKind.BOOT, OperationKind.DELETE, OperationKind.EXEC])
def test_no_checkpoint_is_called_intact_where_nobody_looked_after_one(kind: str) -> None:
    assert "intact" not in unfinished(kind, "It stopped.").message


def test_a_command_is_not_to_be_repeated_unseen() -> None:
    error = unfinished(OperationKind.EXEC, "It stopped.")
    assert "not known" in error.message
    assert "before you run it again" in error.next_action
