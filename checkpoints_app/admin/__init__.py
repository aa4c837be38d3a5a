from checkpoints_app.admin import session_page
from checkpoints_app.admin.checkpoint import CheckpointAdmin
from checkpoints_app.admin.image import ImageAdmin
from checkpoints_app.admin.manifest import ManifestAdmin
from checkpoints_app.admin.orphan import OrphanObjectAdmin
from checkpoints_app.admin.pack import PackAdmin
from checkpoints_app.admin.pin import PinAdmin
from checkpoints_app.admin.receipt import ErasureReceiptAdmin
from checkpoints_app.admin.sweep import SweepAdmin

__all__ = [
    "CheckpointAdmin",
    "ErasureReceiptAdmin",
    "ImageAdmin",
    "ManifestAdmin",
    "OrphanObjectAdmin",
    "PackAdmin",
    "PinAdmin",
    "SweepAdmin",
    "session_page",
]
