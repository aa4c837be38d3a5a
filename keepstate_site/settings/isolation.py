"""How machines are kept apart on this host: their user ids, and the control groups' directory (docs/operations/isolation.md)."""

import re
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from keepstate_site.settings import environment as env

LOWEST, HIGHEST = 1000, 2**32 - 2
_RANGE = re.compile(r"(\d{1,10})-(\d{1,10})")


def uids(name: str, default: str) -> range:
    """First and last id of the range; all of them must be free of other use on the host."""
    value = env.text(name, default)
    found = _RANGE.fullmatch(value)
    if not found or not LOWEST <= int(found[1]) <= int(found[2]) <= HIGHEST:
        raise ImproperlyConfigured(f"{name}={value!r} must be FIRST-LAST, two user ids from {LOWEST} to {HIGHEST}.")
    return range(int(found[1]), int(found[2]) + 1)


def directory(name: str) -> Path | None:
    value = env.text(name)
    return Path(value).absolute() if value else None
