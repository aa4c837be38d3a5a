"""Small facts kept beside a machine in its runtime directory: where its line of checkpoints stands and which cached images it was
started from.

{"checkpoint": id of the checkpoint its next save is a delta to, "overlay": name of the newest frozen overlay that is in that one
(all of them are read if there is none of that name any more: workers/save/chain.py),
"anew": true if the next save must not be a delta (workers/save/recheck.py), "images": [names],
"lazy": root of the image that its memory is served from (workers/host/lazy.py), or ""}
"""

import json
import os
from pathlib import Path
from typing import Any

NAME = "keepstate.json"


def write_note(runtime: Path, **facts: Any) -> None:
    """Replace the note atomically."""
    temporary = runtime / (NAME + ".tmp")
    temporary.write_text(json.dumps(facts))
    os.replace(temporary, runtime / NAME)


def read_note(runtime: Path) -> dict[str, Any]:
    """The note, or {}. Without it a save reads more than it must; the images of a resumed machine are safe from eviction only by it."""
    try:
        note = json.loads((runtime / NAME).read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
