"""Named steps at which a test may kill the worker: `kill -9` exactly there, once.

Inert unless KEEPSTATE_CRASH_AT names the step. KEEPSTATE_CRASH_LATCH names a file that must exist and is removed first, so that the
successor survives the same step.
"""

import os
import signal

SAVE_STEPS = (
    "row_written",
    "overlay_prepared",
    "stopped",
    "devices_saved",
    "disk_switched",
    "pages_copied",
    "continued",
    "pack_written",
    "packs_durable",
    "manifest_written",
    "image_joined",
    "before_publish",
    "published",
)
RESUME_STEPS = ("resume_claimed", "verified", "images_ready", "loaded", "running", "greeted")


def reach(step: str) -> None:
    if os.environ.get("KEEPSTATE_CRASH_AT") != step:
        return
    try:
        os.unlink(os.environ["KEEPSTATE_CRASH_LATCH"])
    except (KeyError, FileNotFoundError):
        return
    os.kill(os.getpid(), signal.SIGKILL)
