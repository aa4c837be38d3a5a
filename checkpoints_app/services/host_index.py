"""This host's hints of which of an account's packs hold which content (checkpoints_app/store/compact_index.py).

Kept below KEEPSTATE_VAR, made and mended by the way: whatever is lost, stale or damaged costs a second copy of some content, never a save.
"""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from checkpoints_app.store.compact_index import CompactIndex
from checkpoints_app.store.ids import Ids
from sessions_app.models import Account

log = logging.getLogger(__name__)

_FORGET_AT = 32  # packs that are gone, before a run is written anew without them


def of(account_id: str) -> CompactIndex:
    return CompactIndex(_directory() / account_id)


def learn(index: CompactIndex, packs: Iterable[tuple[str, Ids]]) -> None:
    """Nothing where the host has no room, or while another process writes: the packs are learned at another save."""
    try:
        index.add(packs)
    except OSError:
        log.info("packs did not enter this host's index", exc_info=True)


def forget(index: CompactIndex, gone: set[str]) -> None:
    if len(gone) < _FORGET_AT:
        return
    try:
        index.forget(gone)
    except OSError:
        log.info("packs that are gone did not leave this host's index", exc_info=True)


def sweep() -> None:
    """Remove what belongs to no account any more. Prerequisite: the database answers."""
    if not _directory().is_dir():
        return
    found = {path.name for path in _directory().iterdir()}
    for name in found.difference(Account.objects.filter(id__in=found).values_list("id", flat=True)):
        shutil.rmtree(_directory() / name, ignore_errors=True)


def _directory() -> Path:
    return Path(settings.KEEPSTATE_VAR) / "index"
