"""What a save has made."""

from dataclasses import dataclass

from .index import UnitIndex, UnitTable
from .manifest import Manifest
from .packer import StoredPack


@dataclass(frozen=True, eq=False)
class PublishedPlan:
    """A saved checkpoint whose every object is durable, ready for the commit that publishes it. Sizes in bytes."""

    manifest: Manifest
    packs: tuple[str, ...]  # every pack that the checkpoint needs, old and new
    new_packs: tuple[StoredPack, ...]
    logical_bytes: int  # of all images
    written_bytes: int  # given to the writer
    unique_bytes: int  # of them new to the account's lineage, plain
    stored_bytes: int  # of new packs and the manifest, as they lie in the store
    manifest_bytes: int
    new_units: UnitTable  # the ids of the new packs

    @property
    def roots(self) -> dict[str, str]:
        return {name: image.root for name, image in self.manifest.images.items()}

    def teach(self, index: UnitIndex) -> None:
        """After the commit: let later saves find what this one stored."""
        for pack in self.new_packs:
            index.add_pack(pack.pack_id, self.new_units.ids_of(pack.pack_id))
