"""A session resumed from an image that streams in: its process, its memory as its hypervisor reads it, and a stream that stands still."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, storage
from checkpoints_app.store import LocalBackend, load_manifest, load_pack_index
from checkpoints_app.store.backends.local import path_of
from checkpoints_app.store.names import object_key
from checkpoints_app.store.seal import Kind
from sessions_app.models import Session
from tests.integration.operations.world import World, machine_of, pid_of
from workers.host import lazy
from workers.lazy import status
from workers.machine.memory.mapping import find_mapping

PAGE = 4096
OWN_PAGES = 8 << 20 >> 12


def serving_pid(session: Session) -> int:
    """The process that serves the session's memory; there must be one."""
    process = status.process_of(lazy.directory_of(lazy.used_by(machine_of(session).runtime)))
    assert process is not None
    return process.pid


def directories() -> list[str]:
    """Lazy images of this host."""
    return sorted(path.name for path in lazy.lazy_directory().glob("*") if path.is_dir())


def state(session: Session) -> str:
    stands = lazy.look(machine_of(session).runtime)
    assert stands is not None, "its memory is served"
    return str(stands["state"])


def memory_of(session: Session, first_page: int, pages: int) -> bytes:
    """As its hypervisor would read it. OSError where that would get a signal."""
    with _opened(session) as (memory, address):
        return os.pread(memory, pages * PAGE, address + first_page * PAGE)


def pages_of(session: Session, first_page: int, pages: int) -> list[bytes | None]:
    """Page by page; None for one that its hypervisor cannot have."""
    found: list[bytes | None] = []
    with _opened(session) as (memory, address):
        for number in range(first_page, first_page + pages):
            try:
                found.append(os.pread(memory, PAGE, address + number * PAGE))
            except OSError:
                found.append(None)
    return found


@contextmanager
def _opened(session: Session) -> Iterator[tuple[int, int]]:
    """The hypervisor's memory, and where the guest's begins in it."""
    record, pid = json.loads((machine_of(session).runtime / "machine.json").read_text()), pid_of(session)
    (segment,) = find_mapping(pid, record["memory_inode"], record["memory_bytes"])
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        yield memory.fileno(), segment.address


@dataclass(frozen=True)
class MemoryPack:
    """A pack of a checkpoint that holds memory and nothing else, none of it the pages that a fake guest itself uses."""

    path: Path
    page: int  # of the image: one that lies in its first frame
    offset: int  # in the object, of that frame

    @property
    def held(self) -> Path:
        return self.path.with_name("held-" + self.path.name)


def memory_pack(checkpoint: Checkpoint) -> MemoryPack:
    backend = storage.backend()
    assert isinstance(backend, LocalBackend)
    keys, account_id = key.keys_to_read(checkpoint.account_id), checkpoint.account_id
    manifest = load_manifest(backend, keys, account_id, checkpoint.manifest_id)
    places = {name: image.locations for name, image in manifest.images.items()}
    others = set((np.concatenate((places["devices"], places["memory"][:OWN_PAGES])) >> 16).tolist())
    ordinal = min(set((places["memory"][places["memory"] >= 0] >> 16).tolist()) - others)
    index = load_pack_index(backend, keys, account_id, manifest.packs[ordinal])
    page = int(np.flatnonzero(places["memory"] == ordinal << 16)[0])
    return MemoryPack(path_of(backend.root, object_key(account_id, Kind.PACK, index.pack_id)), page, int(index.offsets[0]))


def hold(pack: MemoryPack) -> Callable[[], None]:
    """Whoever reads this object from now on waits until the returned function was called: a named pipe lies in its place."""
    path, away = pack.path, pack.held
    path.rename(away)
    os.mkfifo(path)

    def go_on() -> None:
        writer = None
        with suppress(OSError):  # nobody has come to wait
            writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        away.rename(path)
        if writer is not None:
            os.close(writer)

    return go_on


def hold_stream(world: World, checkpoint: Checkpoint) -> Callable[[], None]:
    """The next resume's stream stands still at a pack, once the roots were verified. Call what is returned to let it go on."""
    pack = memory_pack(checkpoint)
    release: list[Callable[[], None]] = []
    world.at("verified", lambda: release.append(hold(pack)))

    def go_on() -> None:
        release[0]()

    return go_on
