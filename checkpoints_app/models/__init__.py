from checkpoints_app.models.account_key import AccountKey
from checkpoints_app.models.checkpoint import Checkpoint
from checkpoints_app.models.image import Image
from checkpoints_app.models.pack import Pack, PackEdge
from checkpoints_app.models.pin import Pin

__all__ = ["AccountKey", "Checkpoint", "Image", "Pack", "PackEdge", "Pin"]
