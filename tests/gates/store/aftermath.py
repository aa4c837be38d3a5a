"""What is left after a death, without and with a power loss, and what must be true of it."""

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkpoints_app.store import Backend, LocalBackend, Manifest, StoreError
from checkpoints_app.store.backends.s3 import S3Place
from checkpoints_app.store.packs import MAX_HEAD_BYTES, decode_frame, decode_head, pack_opener
from tests.gates.store.moments import NEXT, PREVIOUS, WRITTEN
from tests.gates.store.places import opened, told
from tests.store_kit import ACCOUNT, KEYS, Content, restore, save
from tests.support import victims


@dataclass
class Scene:
    place: Path | S3Place
    backend: Backend
    previous: Manifest
    objects: dict[str, bytes]  # as they were before the victim
    journal: Path


def set_scene(place: Path | S3Place, journal: Path) -> Scene:
    """`journal` is written for a directory alone: a server's disk is not ours to cut the power of."""
    backend = opened(place)
    previous = save(backend, None, PREVIOUS).manifest
    return Scene(place, backend, previous, stored_objects(backend), journal)


def copied(scene: Scene, directory: Path) -> Scene:
    """The same aftermath in another place, to judge what a death alone left (the journal is about the original's files)."""
    shutil.copytree(root_of(scene), directory)
    return replace(scene, place=directory, backend=LocalBackend(directory))


def root_of(scene: Scene) -> Path:
    assert isinstance(scene.place, Path)
    return scene.place


def stored_objects(backend: Backend) -> dict[str, bytes]:
    return {listed.key: backend.read(listed.key, 0, listed.object_bytes) for listed in backend.list("")}


def run_victim(scene: Scene, step: str, times: int = 1, sabotage: str = "none") -> int:
    """The victim's exit status: -9 if it died at the step, 0 if it never came there."""
    place, environment = told(scene.place)
    arguments = (place, str(scene.journal), scene.previous.manifest_id, step, str(times), sabotage)
    return victims.run("tests.gates.store.victim", *arguments, environment={**os.environ, **environment})


def lose_power(scene: Scene) -> None:
    """Take away what the journal does not call durable: bytes of files become nothing, names vanish."""
    bytes_kept: set[int] = set()
    names_kept: dict[int, set[str]] = {}
    for line in scene.journal.read_text(encoding="ascii").splitlines():
        note = json.loads(line)
        if note["names"] is None:
            bytes_kept.add(note["inode"])
        else:
            names_kept[note["inode"]] = set(note["names"])
    for directory, children, files in os.walk(root_of(scene)):
        here = Path(directory)
        for name in set(children + files) - names_kept.get(here.stat().st_ino, set()):
            shutil.rmtree(here / name) if (here / name).is_dir() else (here / name).unlink()
        children[:] = [name for name in children if (here / name).exists()]
    for path in root_of(scene).rglob("*"):
        if path.is_file() and path.stat().st_ino not in bytes_kept:
            os.truncate(path, 0)


def judge(scene: Scene, *, finished: bool) -> None:
    """AssertionError unless the previous checkpoint is whole, nothing is half there, and work goes on."""
    try:
        backend = scene.backend
        now = stored_objects(backend)
        assert scene.objects.items() <= now.items(), "an object that existed was changed or lost"
        assert_restores(backend, scene.previous.manifest_id, PREVIOUS)
        manifests = [key.split("/")[-1] for key in now.keys() - scene.objects.keys() if "/manifests/" in key]
        assert len(manifests) == 1 or not finished, "the finished checkpoint is lost"
        for manifest_id in manifests:
            assert_restores(backend, manifest_id, NEXT)
        for key in now:
            if "/packs/" in key:
                decode_whole_pack(key.split("/")[-1], now[key])
        if isinstance(backend, LocalBackend):
            backend.remove_abandoned()
            assert not any(path.is_file() for path in (backend.root / "staging").rglob("*")), "staging keeps files of the dead"
        again = save(backend, scene.previous, NEXT, WRITTEN)
        assert_restores(backend, again.manifest.manifest_id, NEXT)
    except StoreError as error:
        raise AssertionError(f"the store is not whole: {error}") from error


def assert_restores(backend: Backend, manifest_id: str, expected: Content) -> None:
    assert np.array_equal(restore(backend, manifest_id), expected), "a checkpoint restores to other bytes"


def decode_whole_pack(pack_id: str, stored: bytes) -> None:
    opener = pack_opener(KEYS, ACCOUNT, pack_id)
    index = decode_head(opener, stored[:MAX_HEAD_BYTES], len(stored))
    for frame in range(len(index.codecs)):
        decode_frame(opener, index, frame, stored[index.offsets[frame] : index.offsets[frame + 1]])
