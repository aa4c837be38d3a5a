"""What a save relies on: packs as they were when its dedup index was built, to be compared when it is published."""

from dataclasses import dataclass

from checkpoints_app.models import Pack


@dataclass(frozen=True)
class PackVersion:
    """Equal versions hold equal units, under the same numbers, equally good."""

    state: str
    generation: int
    bad: bytes


class PacksMoved(Exception):
    """A pack or manifest that this save relies on is being rewritten or erased, or turned out bad. Nothing was published.

    The capture is still staged: store it again with a fresh index.
    """


def version_of(pack: Pack) -> PackVersion:
    return PackVersion(pack.state, pack.generation, bytes(pack.bad))
