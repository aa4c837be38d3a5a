"""Named steps at which a test may kill the worker: `kill -9` exactly there, once.

Inert unless KEEPSTATE_CRASH_FILE names a file. While that file holds a step's name, the first worker that reaches the step removes the
file and kills itself, so that its successor survives the same step.
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
    "manifest_durable",
    "image_joined",
    "before_publish",
    "published",
)
FORK_STEPS = ("fork_saved", "fork_created")
RESTORE_STEPS = ("images_ready", "restore_taken_up", "restore_stopped", "loaded", "running", "greeted")
BOOT_STEPS = ("boot_claimed", "booted")
DELETE_STEPS = ("machine_ended", "content_erased")
RESUME_STEPS = ("resume_claimed", "verified", "images_ready", "loaded", "running", "greeted")


def reach(step: str) -> None:
    path = os.environ.get("KEEPSTATE_CRASH_FILE")
    if path is None:
        return
    try:
        with open(path) as file:
            wanted = file.read().strip()
        if wanted == step:
            os.unlink(path)
            os.kill(os.getpid(), signal.SIGKILL)
    except FileNotFoundError:
        return
