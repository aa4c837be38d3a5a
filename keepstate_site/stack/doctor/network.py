"""Whether machines get a network of their own here: without one their programs reach no model gateway."""

import os
from collections.abc import Iterator
from pathlib import Path

from keepstate_site.stack.doctor.finding import Finding, ok, warn

HOW = "see docs/operations/isolation.md"
TUN = Path("/dev/net/tun")
#: net_admin, sys_admin: to make a network namespace and a tap device in it.
CAPABILITIES = {12: "net_admin", 21: "sys_admin"}


def network() -> Iterator[Finding]:
    obstacle = _obstacle()
    if obstacle is None:
        yield ok("network", "each machine has a network of its own, in which it reaches the gateway and nothing else")
    else:
        yield warn("network", f"{obstacle}: machines start and resume, and their programs reach no model gateway", HOW)


def _obstacle() -> str | None:
    if os.geteuid() != 0:
        return "this user is not root"
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = int(status["CapEff"], 16)
    missing = [name for number, name in CAPABILITIES.items() if not held >> number & 1]
    if missing:
        return f"root lacks {' and '.join(missing)} here (a container?)"
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{TUN} cannot be opened ({error.strerror})"
    return None
