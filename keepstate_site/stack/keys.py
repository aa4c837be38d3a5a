"""The installation's own secrets, made once and kept in 0600 files.

The settings prefer the environment (KEEPSTATE_SECRET_KEY, KEEPSTATE_MASTER_KEY) to the files.
"""

import secrets

from keepstate_site.stack.paths import Paths, write_once

KEYS = {"secret_key": "KEEPSTATE_SECRET_KEY", "master_key": "KEEPSTATE_MASTER_KEY"}
KEY_BYTES = 32


def made_up() -> dict[str, str]:
    """As an environment, for a process that only tells of itself: they open nothing, and are kept nowhere."""
    return {name: secrets.token_hex(KEY_BYTES) for name in KEYS.values()}


def ensure(paths: Paths) -> None:
    """Make the files that are missing. An existing key is never replaced: the master key opens everything that was saved."""
    for name in KEYS:
        write_once(paths.secrets / name, secrets.token_hex(KEY_BYTES))
