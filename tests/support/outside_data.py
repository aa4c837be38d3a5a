"""Root's stacks keep the data of a closed directory (pytest's own are) elsewhere; this removes what tests left there."""

import shutil
from pathlib import Path

from keepstate_site.stack.home import CLOSED_CHECKOUTS


def remove_below(directory: Path) -> None:
    """Remove the outside data of every root at or below `directory`; nobody else's."""
    for owner in CLOSED_CHECKOUTS.glob("*/root"):
        if Path(owner.read_text().strip()).is_relative_to(directory):
            shutil.rmtree(owner.parent, ignore_errors=True)
