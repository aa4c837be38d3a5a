"""Bring a whole lazy image in, behind what its guest asks for: what the last resume touched first, then the rest, pack by pack."""

import queue
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from workers.lazy.groups import Groups
from workers.lazy.image import MOST_AT_ONCE, LazyImage
from workers.lazy.loader import Loader

#: Packs that are fetched from elsewhere ahead of their use.
FETCHERS, AHEAD = 3, 6


def stream(image: LazyImage, groups: Groups, loader: Loader, first: npt.NDArray[np.int64]) -> None:
    """Returns when all is here. Raises Failed."""
    wanted = groups.of(first[(first >= 0) & (first < len(groups.of_unit))])
    for run in groups.runs(np.sort(wanted), MOST_AT_ONCE):
        image.let_urgent_pass()
        image.bring(run)
    for pack in _fetched(groups, loader):
        for run in groups.runs(np.flatnonzero(groups.packs == pack), MOST_AT_ONCE):
            image.let_urgent_pass()
            image.bring(run)


def _fetched(groups: Groups, loader: Loader) -> Iterator[int]:
    """The packs, each when it is on this host or could not be fetched whole: then it is read as it is needed, and that read tells why."""
    away = [pack for pack, name in enumerate(groups.pack_ids) if not loader.is_here(name)]
    yield from sorted(set(range(len(groups.pack_ids))) - set(away))
    if away:
        yield from _fetch(groups, loader, away)


def _fetch(groups: Groups, loader: Loader, away: list[int]) -> Iterator[int]:
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.Queue[int] = queue.Queue(AHEAD)
    for pack in away:
        todo.put(pack)
    for _ in range(min(FETCHERS, len(away))):
        threading.Thread(target=_fetch_some, args=(groups, loader, todo, done), daemon=True).start()
    for _ in away:
        yield done.get()


def _fetch_some(groups: Groups, loader: Loader, todo: "queue.SimpleQueue[int]", done: "queue.Queue[int]") -> None:
    while True:
        try:
            pack = todo.get_nowait()
        except queue.Empty:
            return
        try:
            loader.fetch(groups.pack_ids[pack])
        except Exception:  # noqa: S110  the read that follows meets the same, and is the one that judges
            pass
        done.put(pack)
