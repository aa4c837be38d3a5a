"""Where model calls go, and whether a gateway has the doors of this host's machines."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from keepstate_site.stack import lock
from keepstate_site.stack.doctor.finding import Finding, failed, ok, warn
from keepstate_site.stack.paths import Paths, default_root

PROVIDERS = ("KEEPSTATE_ANTHROPIC_URL", "KEEPSTATE_OPENAI_URL", "KEEPSTATE_GEMINI_URL")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def gateway() -> Iterator[Finding]:
    yield from providers()
    root = default_root()
    held = [path for path in root.glob("host/*/gateway/serving.lock") if is_held(path)]
    if held:
        yield ok("gateway", f"a process serves the machines of {', '.join(sorted(path.parts[-3] for path in held))}")
    elif lock.holder(Paths(root)):
        yield warn("gateway", "the stack runs, and no gateway serves its machines", f"see {root / 'log'}/gateway@*.log")
    else:
        yield ok("gateway", "does not run, nor does the stack")


def providers() -> Iterator[Finding]:
    """Those that are told; the others are the providers' own."""
    for name in PROVIDERS:
        url = os.environ.get(name)
        if not url:
            continue
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield failed(name, "is no address such as https://models.example", "see docs/operations/configure.md")
        elif parts.scheme == "http" and parts.hostname not in LOOPBACK:
            yield warn(name, f"{parts.hostname} is reached without TLS: provider keys and prompts go there in the clear", "use https://")
        else:
            yield ok(name, f"model calls go to {parts.hostname}, in place of the provider")


def is_held(path: Path) -> bool:
    """By a gateway, as long as it has its turn."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
