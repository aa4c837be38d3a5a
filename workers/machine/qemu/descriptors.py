"""Files that QEMU writes without being able to open them: it is given the open file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.machine.qemu.monitor import Monitor, MonitorError, MonitorSilent


@contextmanager
def receiving(monitor: Monitor, path: Path) -> Iterator[str]:
    """A new file, under the name by which a command of this monitor's QEMU writes to it until this is left.

    QEMU forgets what a worker that died has left, when that worker's connection ends. Raises OSError, MonitorError, MonitorSilent.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        number = monitor.add_descriptor(fd)
    finally:
        os.close(fd)
    try:
        yield f"/dev/fdset/{number}"
    finally:
        try:
            monitor.call("remove-fd", {"fdset-id": number})
        except (MonitorError, MonitorSilent):
            pass  # it ends with the connection
