from checkpoints_app.admin.checkpoint import CheckpointAdmin
from checkpoints_app.admin.image import ImageAdmin
from checkpoints_app.admin.pack import PackAdmin
from checkpoints_app.admin.pin import PinAdmin

__all__ = ["CheckpointAdmin", "ImageAdmin", "PackAdmin", "PinAdmin"]
