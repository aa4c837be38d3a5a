"""`host clear-cache`: this host's assembled images go; what is saved is not touched."""

import shutil
from argparse import ArgumentParser
from typing import Any

from sessions_app.services.by_operator import write
from workers.cache.files import DEVICES, DISK, MEMORY
from workers.host.identity import cache_directory, host_id
from workers.management.host.show import show_cache
from workers.management.host.talk import Subcommand, Writes, who


def _clear(out: Writes, options: dict[str, Any]) -> None:
    show_cache(out)
    for kind in (MEMORY, DISK, DEVICES):
        shutil.rmtree(cache_directory() / kind, ignore_errors=True)
    write("clear_cache", who(), account_id="", host_id=host_id())
    out.write("cache     cleared on this host; the next resume reads the store")


def _nothing(_parser: ArgumentParser) -> None:
    """It takes no arguments: it is done where it is asked for."""


SUBCOMMANDS = {"clear-cache": Subcommand("remove this host's assembled images", _nothing, _clear)}
