"""The guest's console: a ring in QEMU's memory, whose tail is read when something went wrong.

Reading empties the ring, so what was read is kept in console.log, which never grows beyond the ring's size.
"""

import base64
from pathlib import Path

from workers.machine.qemu.argv import CONSOLE_BYTES, CONSOLE_ID
from workers.machine.qemu.monitor import Monitor
from workers.machine.runtime import write_atomically

LOG_NAME = "console.log"
TAIL_CHARACTERS = 4000  # the trace of a kernel panic


def console_tail(monitor: Monitor, runtime: Path) -> str:
    """The last lines that the guest printed, as plain text. Raises MonitorError, MonitorSilent."""
    fresh = monitor.call("ringbuf-read", {"device": CONSOLE_ID, "size": CONSOLE_BYTES, "format": "base64"})
    log = runtime / LOG_NAME
    before = log.read_bytes() if log.exists() else b""
    whole = (before + base64.b64decode(str(fresh)))[-CONSOLE_BYTES:]
    write_atomically(log, whole)
    return plain(whole)


def plain(printed: bytes) -> str:
    """What a guest printed, made harmless for logs and terminals: no control characters but line ends."""
    text = printed.decode(errors="replace").replace("\r", "")
    return "".join(character for character in text if character == "\n" or character.isprintable())[-TAIL_CHARACTERS:].strip()
