"""One stack for every sabotage, since a stack takes ten seconds of processor time to start: a file names the mechanism that is off."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.sabotage.mechanisms import MECHANISMS


def install() -> None:
    """In this process each mechanism's functions ask the file at each call whether they are to do their work."""
    file = Path(os.environ["KEEPSTATE_SABOTAGE_FILE"])
    for mechanism, swaps in MECHANISMS.items():
        for owner, name, instead in swaps():
            patch.object(owner, name, _either(file, mechanism, getattr(owner, name), instead)).start()


def _either(file: Path, mechanism: str, sound: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return (instead if file.read_text() == mechanism else sound)(*arguments, **named)

    return call
