"""Save a machine: capture one moment, then store what is new of it while the machine runs on.

The store's objects are durable when `save` returns; nothing is published yet.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import checkpoint as checkpoints
from checkpoints_app.services import dedup, key, publish, storage
from checkpoints_app.services.publish import Stored
from checkpoints_app.store import CheckpointWriter, Manifest, PublishedPlan, SecretKey
from sessions_app.services import steps
from workers import crash
from workers.cache import files as cache
from workers.cache import store
from workers.cache.sparse import derive
from workers.host import machines
from workers.host.identity import runtime_directory
from workers.host.note import read_note, write_note
from workers.machine.driver import PAGE_BYTES, Capture, GuestImage, Machine, MachineError
from workers.restore import touched
from workers.restore.images import assemble_disk_of
from workers.save import recheck
from workers.save.chain import keep_short
from workers.save.disk import Int64s, WrittenUnits, read_overlays, split_by_base, zero_units_of
from workers.save.lineage import ANEW, Lineage, lineage
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
    taken = machine.capture(staging, continue_after=continue_after, at_stop=partial(_draw_watermarks, checkpoint))
    capture = _over_cached(taken, str(line.get("lazy", "")))
    try:
        checkpoints.uploading(checkpoint, pause_seconds=capture.pause_seconds, written_bytes=len(capture.page_numbers) * PAGE_BYTES)
        check()
        return _store_and_join(machine, checkpoint, capture, staging, line, check)
    except Exception:
        keep_short(machine, capture.overlays, published=None)
        raise


def _draw_watermarks(checkpoint: Checkpoint) -> None:
    """Right before the machine is stopped: while it stands still nobody waits for a database."""
    checkpoint.watermarks = {name: number for draw in steps.watermarks for name, number in draw(checkpoint.session_id).items()}


def _over_cached(capture: Capture, lazy: str) -> Capture:
    """A machine whose memory was served while it streamed in: the same image lies in the host cache by now, as an ordinary file."""
    base = cache.place(cache.MEMORY, lazy) if lazy else capture.memory_base
    return replace(capture, memory_base=base) if base.exists() else capture


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
    backend, account_id, image = store.backend(), checkpoint.account_id, machines.image_of(checkpoint.session)
    keys = key.keys_to_save(account_id)
    found = lineage(checkpoint, line, keys)
    before = found.manifest
    with CheckpointWriter(backend, keys, account_id, before, found.dedup.index, step=crash.reach) as writer:
        _add_memory(writer, checkpoint, capture, before, made)
        if image.disk is not None:
            known = found.parent is not None and line.get("checkpoint") == found.parent.id
            _add_disk(writer, capture, image, before, _not_covered(capture, str(line.get("overlay", ""))) if known else capture.overlays)
        devices = capture.devices.read_bytes()
        units = -(-len(devices) // PAGE_BYTES)
        writer.add_image("devices", len(devices), None, [(np.arange(units), devices)], whole=True)
        check()
        whole = _whole_memory(made) if recheck.is_due(before) else None
        since = 0 if before is None or whole is not None else recheck.saves_since(before) + 1
        facts = {**_facts(checkpoint), recheck.FACT: since}
        plan = writer.finish(facts, standalone=_of_another_session(before, checkpoint))
    if whole is not None:
        _recheck(checkpoint, capture, image, plan, keys.id_key, whole)
    return plan, found


def _whole_memory(made: "_ImageInTheMaking") -> Path | None:
    """None where it cannot be made (no room, the image under it is damaged): the next save tries again."""
    try:
        return made.wait()
    except (MachineError, OSError):
        log.warning("the whole memory cannot be compared with this save's", exc_info=True)
        return None


def _recheck(checkpoint: Checkpoint, capture: Capture, image: GuestImage, plan: PublishedPlan, id_key: SecretKey, memory: Path) -> None:
    """Raises MachineError `recheck_failed`; nothing of the save stays in the store then, and the machine's next one has no parent."""
    session = checkpoint.session
    roots = {"memory": recheck.whole_root(id_key, session.memory_bytes, None, image_pages(memory))}
    if image.disk is not None:
        differing, _, zero = _disk_units(image.disk, [*([capture.disk_base] if capture.disk_base else []), *capture.overlays])
        name = f"image {image.digest}"
        roots["disk"] = recheck.whole_root(id_key, image.disk_bytes, name, differing.batches(), zero_units=zero)
    try:
        recheck.require_equal(checkpoint.id, plan.manifest, roots)
    except MachineError:
        storage.discard(checkpoint.account_id, [pack.pack_id for pack in plan.new_packs], plan.manifest.manifest_id)
        runtime = runtime_directory(session.id, checkpoint.source_epoch)
        write_note(runtime, **{**read_note(runtime), ANEW: True})
        raise


def _of_another_session(before: Manifest | None, checkpoint: Checkpoint) -> bool:
    """A fork's first save builds on its parent's manifest, which must be free to go when the parent does."""
    return before is not None and before.facts.get("session") != checkpoint.session_id


def _add_memory(
    writer: CheckpointWriter, checkpoint: Checkpoint, capture: Capture, before: Manifest | None, made: "_ImageInTheMaking"
) -> None:
    pages = written_pages(capture.page_numbers, capture.pages)
    if before is None and capture.memory_base.stat().st_blocks:
        pages = image_pages(made.wait())  # no parent stands for what lies under the written pages
    writer.add_image("memory", checkpoint.session.memory_bytes, None, pages)


def _not_covered(capture: Capture, newest_covered: str) -> tuple[Path, ...]:
    """The overlays above the one of that name; all, if it is not there (any more): to read more than is new costs time alone.

    By name and not by count: a name stays right if the chain becomes shorter.
    """
    names = [overlay.name for overlay in capture.overlays]
    return capture.overlays[names.index(newest_covered) + 1 if newest_covered in names else 0 :]


def _add_disk(writer: CheckpointWriter, capture: Capture, image: GuestImage, before: Manifest | None, overlays: tuple[Path, ...]) -> None:
    """The overlays that the parent does not cover; with no parent, the assembled disk that the machine started from as well."""
    assert image.disk is not None
    layers = [*([capture.disk_base] if before is None and capture.disk_base else []), *overlays]
    differing, equal, zero = _disk_units(image.disk, layers)
    writer.add_image("disk", image.disk_bytes, f"image {image.digest}", differing.batches(), base_units=equal, zero_units=zero)


def _disk_units(base: Path, layers: Sequence[Path]) -> tuple[WrittenUnits, Int64s, Int64s]:
    """(units that differ from the base image's, units equal to them, zero units that are not)"""
    written, zero = read_overlays(layers)
    differing, equal = split_by_base(written, base)
    zero_in_base = zero_units_of(base, zero)
    return differing, np.union1d(equal, zero[zero_in_base]), zero[~zero_in_base]


def _facts(checkpoint: Checkpoint) -> dict[str, object]:
    """What the manifest itself says, so that the store alone is enough to restore."""
    session = checkpoint.session
    return {
        "pin": checkpoint.pin_id,
        "pin_facts": checkpoint.pin.facts,
        "watermarks": {**checkpoint.watermarks, "events": checkpoint.event_watermark},
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
        **touched.fact_of(runtime_directory(session.id, checkpoint.source_epoch)),
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
        assemble_disk_of(checkpoint, plan.manifest)


@contextmanager
def suppress_and_tell(what: str) -> Iterator[None]:
    """The host cache only makes the next resume faster: a failure there does not fail a save whose objects are durable."""
    try:
        yield
    except Exception:
        log.warning(what, exc_info=True)


def _remember(machine: Machine, checkpoint: Checkpoint, capture: Capture, plan: PublishedPlan) -> None:
    note = {name: fact for name, fact in read_note(machine.runtime).items() if name != ANEW}
    newest = capture.overlays[-1].name if capture.overlays else ""
    write_note(machine.runtime, **{**note, "checkpoint": checkpoint.id, "overlay": newest})
    dedup.learn(checkpoint.account_id, plan)
    if checkpoint.boundary != "stop":
        keep_short(machine, capture.overlays, published=checkpoint.id)
