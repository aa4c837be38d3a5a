from checkpoints_app.models.account_key import AccountKey
from checkpoints_app.models.checkpoint import Checkpoint
from checkpoints_app.models.image import Image
from checkpoints_app.models.manifest import Manifest, ManifestEdge
from checkpoints_app.models.orphan import OrphanObject
from checkpoints_app.models.pack import Pack, PackEdge
from checkpoints_app.models.pin import Pin
from checkpoints_app.models.receipt import ErasureReceipt
from checkpoints_app.models.sweep import Sweep

__all__ = [
    "AccountKey",
    "Checkpoint",
    "ErasureReceipt",
    "Image",
    "Manifest",
    "ManifestEdge",
    "OrphanObject",
    "Pack",
    "PackEdge",
    "Pin",
    "Sweep",
]
