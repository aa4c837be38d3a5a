"""Save a machine: capture one moment, then store what is new of it while the machine runs on.

The store's objects are durable when `save` returns; nothing is published yet.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import dedup, key, publish, storage
from checkpoints_app.services.publish import Stored
from checkpoints_app.store import CheckpointWriter, Manifest, PublishedPlan
from workers import crash
from workers.cache import files as cache
from workers.cache.sparse import derive
from workers.host import machines
from workers.host.note import read_note, write_note
from workers.machine.driver import PAGE_BYTES, Capture, GuestImage, Machine, MachineError
from workers.restore.images import assemble_missing, disk_name
from workers.save.disk import read_overlays, split_by_base
from workers.save.lineage import Lineage, lineage
from workers.save.memory import image_pages, written_pages

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    stored: Stored
    remember: Callable[[], None]  # after publication: what the machine's next save is a delta to
    again: Callable[[], "Saved"]  # the same capture stored once more, with a fresh index; while it is staged


def save(machine: Machine, checkpoint: Checkpoint, staging: Path, *, continue_after: bool, check: Callable[[], None]) -> Saved:
    """Prerequisite: `staging` is an empty directory. `check` is called between the parts and may raise to stop the work.

    Raises MachineError, StoreError or OSError; the capture itself then left the machine as it was, a later failure leaves it as
    `continue_after` says.
    """
    line = read_note(machine.runtime)
    capture = machine.capture(staging, continue_after=continue_after)
    checkpoints.uploading(checkpoint, pause_seconds=capture.pause_seconds, written_bytes=len(capture.page_numbers) * PAGE_BYTES)
    check()
    return _store_and_join(machine, checkpoint, capture, staging, line, check)


def _store_and_join(
    machine: Machine, checkpoint: Checkpoint, capture: Capture, staging: Path, line: Mapping[str, object], check: Callable[[], None]
) -> Saved:
    image = _ImageInTheMaking(capture, staging)
    try:
        plan, found = _store(checkpoint, capture, line, image, check)
        with suppress_and_tell("the next resume's memory image did not join the host cache"):
            _join_memory(plan, image)
        with suppress_and_tell("the next resume's other images did not join the host cache"):
            _join_others(checkpoint, plan, capture)
    finally:
        image.discard()
    crash.reach("image_joined")
    again = partial(_store_and_join, machine, checkpoint, capture, staging, line, check)
    return Saved(publish.stored_of(plan, found.dedup.versions), lambda: _remember(machine, checkpoint, capture, plan), again)


def _store(
    checkpoint: Checkpoint,
    capture: Capture,
    line: Mapping[str, object],
    made: "_ImageInTheMaking",
    check: Callable[[], None],
) -> tuple[PublishedPlan, Lineage]:
    backend, account_id, image = storage.backend(), checkpoint.account_id, machines.image_of(checkpoint.session)
    keys = key.keys_to_save(account_id)
    found = lineage(checkpoint, line, keys)
    before = found.manifest
    with CheckpointWriter(backend, keys, account_id, before, found.dedup.index, step=crash.reach) as writer:
        _add_memory(writer, checkpoint, capture, before, made)
        if image.disk is not None:
            known = found.parent is not None and line.get("checkpoint") == found.parent.id
            _add_disk(writer, capture, image, before, int(str(line.get("overlays", 0))) if known else 0)
        devices = capture.devices.read_bytes()
        units = -(-len(devices) // PAGE_BYTES)
        writer.add_image("devices", len(devices), None, [(np.arange(units), devices)], whole=True)
        check()
        return writer.finish(_facts(checkpoint)), found


def _add_memory(
    writer: CheckpointWriter, checkpoint: Checkpoint, capture: Capture, before: Manifest | None, made: "_ImageInTheMaking"
) -> None:
    pages = written_pages(capture.page_numbers, capture.pages)
    if before is None and capture.memory_base.stat().st_blocks:
        pages = image_pages(made.wait())  # no parent stands for what lies under the written pages
    writer.add_image("memory", checkpoint.session.memory_bytes, None, pages)


def _add_disk(writer: CheckpointWriter, capture: Capture, image: GuestImage, before: Manifest | None, covered: int) -> None:
    """The overlays above those that the parent covered; with no parent, the assembled disk that the machine started from as well."""
    assert image.disk is not None
    layers = [*([capture.disk_base] if before is None and capture.disk_base else []), *capture.overlays[covered:]]
    written, zero = read_overlays(layers)
    differing, equal = split_by_base(written, image.disk)
    writer.add_image("disk", image.disk_bytes, f"image {image.digest}", differing.batches(), base_units=equal, zero_units=zero)


def _facts(checkpoint: Checkpoint) -> dict[str, object]:
    """What the manifest itself says, so that the store alone is enough to restore."""
    session = checkpoint.session
    return {
        "pin": checkpoint.pin_id,
        "pin_facts": checkpoint.pin.facts,
        "watermarks": {"events": checkpoint.event_watermark},
        "checkpoint": checkpoint.id,
        "session": session.id,
        "epoch": checkpoint.source_epoch,
        "taken_at": checkpoint.created_at.isoformat(),
        "boundary": checkpoint.boundary,
        "reason": checkpoint.reason,
        "parent": checkpoint.parent_id,
        "image": session.image_digest,
        "image_name": session.image_name,
        "machine": {"memory_bytes": session.memory_bytes, "cpus": session.cpus, "architecture": session.architecture},
    }


class _ImageInTheMaking:
    """The next resume's memory image, made from the one under the machine beside the storing.

    A failure costs only that resume's speed, unless the save needs the image itself: so it is raised only to who waits for it.
    """

    def __init__(self, capture: Capture, staging: Path):
        self._capture = capture
        self._path = cache.temporary(cache.MEMORY, staging.name)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._make, name="memory-image", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            _require_intact(self._capture.memory_base)
            derive(self._capture.memory_base, self._path, self._capture.page_numbers, self._capture.pages)
        except BaseException as error:
            self._error = error

    def wait(self) -> Path:
        """The finished file. Raises what kept it from being made."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._path

    def discard(self) -> None:
        """Remove what did not become an image of the cache: nothing else would, while this process lives."""
        self._thread.join()
        self._path.unlink(missing_ok=True)


def _require_intact(base: Path) -> None:
    """What has changed in an assembled image since would pass into the next one unseen, under the name of content that it is not."""
    if base == cache.place(cache.MEMORY, base.name).resolve() and not cache.intact(cache.MEMORY, base.name):
        raise MachineError("bad_image", "The memory image that the machine was started from is damaged on this host")


def _join_memory(plan: PublishedPlan, image: _ImageInTheMaking) -> None:
    root = plan.manifest.images["memory"].root
    made = image.wait()
    with cache.single_flight(cache.MEMORY, root):
        cache.join(cache.MEMORY, root, made)


def _join_others(checkpoint: Checkpoint, plan: PublishedPlan, capture: Capture) -> None:
    """Devices as they were captured; the disk assembled as a resume would, from what was just stored."""
    devices = cache.temporary(cache.DEVICES, checkpoint.id)
    try:
        shutil.copyfile(capture.devices, devices)
        cache.join(cache.DEVICES, plan.manifest.digest, devices)
    finally:
        devices.unlink(missing_ok=True)
    if "disk" in plan.manifest.images:
        assemble_missing(
            checkpoint, plan.manifest, {cache.DISK: disk_name(plan.manifest.images["disk"].root, checkpoint.image_digest)}, lambda: None
        )


@contextmanager
def suppress_and_tell(what: str) -> Iterator[None]:
    """The host cache only makes the next resume faster: a failure there does not fail a save whose objects are durable."""
    try:
        yield
    except Exception:
        log.warning(what, exc_info=True)


def _remember(machine: Machine, checkpoint: Checkpoint, capture: Capture, plan: PublishedPlan) -> None:
    note = read_note(machine.runtime)
    write_note(machine.runtime, checkpoint=checkpoint.id, overlays=len(capture.overlays), images=note.get("images", []))
    dedup.learn(checkpoint.account_id, plan)
