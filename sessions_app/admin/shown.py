"""How a value is shown in lists: a state with a colour that says whether it is well, a time as how long ago."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import admin

#: By what it means to an operator, the states that any of our rows may have. What is not here is shown plainly.
_WORDS = {
    "success": "running published succeeded live alive active delivered approved consumed done",
    "info": "queued provisioning checkpointing stopping resuming capturing uploading rewriting pending scheduled resting enrolled",
    "warning": "deleting erasing condemned draining moving cancelled reconciliation_required grace",
    "danger": "failed recovery_required corrupt silent vm_silent deaf lost given_up denied",
}
MEANS: Mapping[str, str] = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}


def state_label(field: str, description: str = "state") -> Callable[[Any, Any], str]:
    """A column of that field as a coloured label."""

    @admin.display(description=description)
    def shown(_admin: Any, row: Any) -> str:
        return str(getattr(row, field))

    return labelled(shown)


def labelled(column: Callable[..., str]) -> Callable[..., str]:
    """A column whose words are states: unfold reads the colours of its labels from this attribute."""
    column.label = dict(MEANS)  # type: ignore[attr-defined]
    return column
