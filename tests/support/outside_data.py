"""What stacks of tests leave beside the files of their directory, for which nobody would look: this removes it.

Root's stacks keep the data of a closed directory (pytest's own are) elsewhere; a machine's network is mounted on a file.
"""

import shutil
from pathlib import Path

from keepstate_site.stack.home import CLOSED_CHECKOUTS
from tests.support.networks import remove_networks


def remove_below(directory: Path) -> None:
    """Remove the outside data of every root at or below `directory`, and the networks held there; nobody else's."""
    remove_networks(directory)
    for owner in CLOSED_CHECKOUTS.glob("*/root"):
        if Path(owner.read_text().strip()).is_relative_to(directory):
            shutil.rmtree(owner.parent, ignore_errors=True)
