"""The chain of a machine's overlays: each live save makes it longer by one, so after every few of them it is flattened.

Only when the save that captured the overlays has ended, published or not, for until then it reads them. Checkpoints lie in the store and in
the host cache and hold none of these files.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from workers.host.note import read_note, write_note
from workers.machine.driver import Machine

MAX_OVERLAYS = 8  # with the live one

log = logging.getLogger(__name__)


def keep_short(machine: Machine, overlays: Sequence[Path], published: str | None) -> None:
    """`overlays`: the capture's. `published`: the checkpoint that holds their content; None if the save failed.

    Never raises: a long chain costs speed, so it fails nothing. Safe to die in at any step: what the note says of the overlays stays true
    with and without the flattening, and a name that is gone makes the next save read all of them.
    """
    if len(overlays) + 1 < MAX_OVERLAYS:
        return
    try:
        if published is None:  # the kept overlay's name may stand in the note, and will hold more than the note's checkpoint does
            write_note(machine.runtime, **{**read_note(machine.runtime), "overlay": ""})
        flat = machine.flatten(overlays)
        note = read_note(machine.runtime)
        if flat and published is not None and note.get("checkpoint") == published:
            write_note(machine.runtime, **{**note, "overlay": overlays[0].name})
    except Exception:
        log.warning("the overlays were not flattened", extra={"runtime": machine.runtime.name}, exc_info=True)
