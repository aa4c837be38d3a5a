"""A whole memory image out of the store, by this process and one beside it, while packs that are elsewhere are still being fetched."""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkpoints_app.services import storage
from checkpoints_app.store import UnavailableError, object_key
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.seal import Kind
from workers.cache import files as cache
from workers.cache.caching import CachingBackend
from workers.host.identity import host_directory
from workers.lazy import status
from workers.lazy.assist import TOKEN, restore_from
from workers.lazy.plan import Plan
from workers.lazy.start import Started, start
from workers.restore.source import Source

log = logging.getLogger(__name__)

FETCHERS = 4  # packs fetched at once: each waits for the network most of the time
ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class Target:
    """The file that both processes write into, and the pipe out of which both take their work."""

    path: Path
    fd: int
    tokens: int
    give: int
    helper: Started | None


@contextmanager
def target_of(checkpoint_id: str) -> Iterator[Target]:
    """Made as soon as it is known to be needed: the process beside takes as long to start as a manifest to read. What has no name in the
    cache at the end is removed.
    """
    path = cache.temporary(cache.MEMORY, checkpoint_id)
    path.unlink(missing_ok=True)
    with ExitStack() as stack:
        stack.callback(path.unlink, missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, fd)
        tokens, give = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, tokens)
        helper = _helper(fd, tokens)
        if helper is not None:
            stack.callback(_end, helper)
        yield Target(path, fd, tokens, give, helper)


def restore_whole(source: Source, target: Target, check: Callable[[], None]) -> None:
    """Every unit of the memory image into the target, each verified. `check` is called before each pack and may raise to stop the work.

    Raises IntegrityError, MissingObjectError, BackendError, OSError; the target is then incomplete.
    """
    plan = source.plan({})
    os.ftruncate(target.fd, plan.length_bytes)
    helper = target.helper if _begun(target.helper, plan) else None
    with _fed(source, list(plan.indexes.values()), target.give):
        restore_from(target.tokens, plan, target.fd, source.backend, storage.generations, check)
    if helper is not None:
        _require_done(helper)


@contextmanager
def _fed(source: Source, packs: list[PackIndex], give: int) -> Iterator[None]:
    """Packs that are here are given at once, others as they arrive. Left early, no more are fetched."""
    over = threading.Event()
    feeding = threading.Thread(target=_feed, args=(source, packs, give, over), name="feed", daemon=True)
    feeding.start()
    try:
        yield
    finally:
        over.set()
        feeding.join()


def _feed(source: Source, packs: list[PackIndex], give: int, over: threading.Event) -> None:
    backend, account_id = source.backend, source.checkpoint.account_id
    keys = [object_key(account_id, Kind.PACK, pack.pack_id, pack.generation) for pack in packs]

    def bring(number: int) -> None:
        try:
            if not over.is_set() and isinstance(backend, CachingBackend):
                backend.fill(keys[number])
        except Exception:
            log.warning("a pack was not fetched whole; the read that follows meets the reason", extra={"key": keys[number]}, exc_info=True)
        os.write(give, TOKEN.pack(number))

    try:
        here = [number for number, key in enumerate(keys) if not isinstance(backend, CachingBackend) or backend.cache.holds(key)]
        for number in here:
            os.write(give, TOKEN.pack(number))
        with ThreadPoolExecutor(FETCHERS, "fetch") as pool:
            list(pool.map(bring, sorted(set(range(len(packs))) - set(here))))
    finally:
        os.close(give)


def _helper(fd: int, tokens: int) -> Started | None:
    try:
        return start("assist", [str(fd), str(tokens)], log=host_directory() / "assist.log", pass_fds=(fd, tokens))
    except OSError:
        log.warning("no process could be started beside the restore", exc_info=True)
        return None


def _begun(helper: Started | None, plan: Plan) -> bool:
    if helper is None:
        return False
    try:
        helper.go(plan)
    except OSError:
        log.warning("the process beside the restore did not begin", exc_info=True)
        return False
    return True


def _require_done(helper: Started) -> None:
    """Raises what the process beside met. One that was lost in the middle of its part is a failure that another attempt helps."""
    helper.control.settimeout(ANSWER_SECONDS)
    try:
        said = helper.control.recv(4096)
    except OSError:
        said = b""
    told = json.loads(said) if said else {}
    if "done" not in told:
        raise status.raised(told) or UnavailableError(f"The process beside the restore ended early ({told.get('text', 'lost')}). Retry.")


def _end(helper: Started) -> None:
    """By its pid: it has answered, or what it does is not wanted any more."""
    helper.close()
    helper.process.kill()
    helper.process.wait(10)
