"""Checkpoints without machines: a real store and database, saves and restores as a worker does them, a look at every stored unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from django.db import transaction

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import dedup, key, pin, publish, storage
from checkpoints_app.services.publish import Stored
from checkpoints_app.services.relied import PacksMoved
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import UNIT_BYTES, CheckpointWriter, LocalBackend, PublishedPlan, load_manifest, restore_image, verify_roots
from checkpoints_app.store.backends.backend import Step, no_step
from checkpoints_app.store.backends.local import path_of
from checkpoints_app.store.names import parse_key
from checkpoints_app.store.reader import load_pack_index
from checkpoints_app.store.scan import read_good_units
from sessions_app.models import Account, Session
from sessions_app.services.lease import Lease
from tests.store_kit import Content, pages
from tests.support.fleet import session_row

UNITS = 48  # of an image: three packs of the tests' size
PACK_UNITS = 16
LEASE = Lease(operation_id="op_shelf", token=1, attempt=1, seconds=30)


@dataclass
class Shelf:
    account: Account
    contents: dict[str, Content] = field(default_factory=dict)  # what each checkpoint must restore to
    plans: dict[str, PublishedPlan] = field(default_factory=dict)  # what its last save has made

    def session(self) -> Session:
        session = session_row(self.account)
        pin_row = pin.record("x86_64", {"hypervisor": "test"})
        Session.objects.filter(id=session.id).update(pin_digest=pin_row.digest)
        session.refresh_from_db()
        return session

    # -- saving, in the parts that a worker's save has

    def begin(self, session: Session, parent: Checkpoint | None) -> Checkpoint:
        return Checkpoint.objects.create(
            account=self.account,
            session=session,
            parent=parent,
            state=CheckpointState.UPLOADING,
            operation_id=LEASE.operation_id,
            lease_token=LEASE.token,
            pin=pin.record("x86_64", {"hypervisor": "test"}),
            image_digest=session.image_digest,
            source_epoch=session.epoch,
            event_watermark=session.event_count,
        )

    def store(self, row: Checkpoint, memory: Content, *, step: Step = no_step) -> Stored:
        keys, account_id = key.keys_to_save(self.account.id), self.account.id
        parent = Checkpoint.objects.filter(id=row.parent_id, state=CheckpointState.PUBLISHED).first()
        before = load_manifest(storage.backend(), keys, account_id, parent.manifest_id) if parent else None
        found = dedup.index_for(account_id, keys, before)
        written = np.arange(len(memory)) if parent is None else np.flatnonzero((self.contents[parent.id] != memory).any(axis=1))
        with CheckpointWriter(storage.backend(), keys, account_id, before, found.index, step=step) as writer:
            writer.add_image("memory", len(memory) * UNIT_BYTES, None, pages(memory, written))
            self.plans[row.id] = writer.finish(facts_of(row))
            return publish.stored_of(self.plans[row.id], found.versions)

    def publish(self, row: Checkpoint, stored: Stored) -> Checkpoint:
        with transaction.atomic():
            publish.publish(row, stored, LEASE, source="test")
        row.refresh_from_db()
        return row

    def save(self, session: Session, memory: Content, *, parent: Checkpoint | None = None) -> Checkpoint:
        row = self.begin(session, parent)
        while True:
            stored = self.store(row, memory)
            try:
                self.publish(row, stored)
                break
            except PacksMoved:
                storage.discard(self.account.id, [pack.id for pack in stored.new_packs], stored.manifest_id)
        dedup.learn(self.account.id, self.plans[row.id])
        self.contents[row.id] = memory.copy()
        return row

    # -- reading

    def restore(self, row: Checkpoint) -> Content:
        """As a worker's restore does. Raises what a reader raises."""
        keys, account_id, backend = key.keys_to_read(self.account.id), self.account.id, storage.backend()
        manifest = load_manifest(backend, keys, account_id, row.manifest_id)
        indexes = verify_roots(backend, keys, account_id, manifest, generations=storage.generations)
        target = np.zeros((len(manifest.images["memory"].locations), UNIT_BYTES), np.uint8)

        def sink(unit: int, data: memoryview) -> None:
            target.reshape(-1)[unit * UNIT_BYTES : unit * UNIT_BYTES + len(data)] = data

        restore_image(backend, keys, account_id, manifest, "memory", sink, indexes=indexes, generations=storage.generations)
        return target

    def assert_whole(self, *rows: Checkpoint) -> None:
        for row in rows:
            row.refresh_from_db()
            assert row.state == CheckpointState.PUBLISHED, (row.state, row.failure)
            assert np.array_equal(self.restore(row), self.contents[row.id]), "a checkpoint restores to other bytes"

    def assert_exact(self) -> None:
        """The store holds what the live checkpoints need, byte for byte, and nothing else; and the rows say the same."""
        live = list(Checkpoint.objects.filter(account=self.account, state__in=[CheckpointState.PUBLISHED, CheckpointState.CORRUPT]))
        needed, manifests = self.needed(live)
        found_units, found_manifests = self.stored_units(), {name.object_id for name in self.object_names() if name.word == "manifest"}
        assert found_units == needed, f"stored and not needed: {found_units - needed}; needed and not stored: {needed - found_units}"
        assert found_manifests == manifests, "manifests that nobody needs, or that are missing"
        assert set(Pack.objects.filter(account=self.account).values_list("id", flat=True)) == {pack for pack, _ in needed}
        assert set(Manifest.objects.filter(account=self.account).values_list("id", flat=True)) == manifests
        assert set(Pack.objects.filter(account=self.account).values_list("state", flat=True)) <= {"live"}
        held = PackEdge.objects.filter(checkpoint__account=self.account).exclude(checkpoint__in=live)
        assert not held.exists()
        assert not ManifestEdge.objects.filter(checkpoint__account=self.account).exclude(checkpoint__in=live).exists()

    def needed(self, live: list[Checkpoint]) -> tuple[set[tuple[str, int]], set[str]]:
        units: set[tuple[str, int]] = set()
        manifests: set[str] = set()
        keys = key.keys_to_read(self.account.id)
        for row in live:
            manifest = load_manifest(storage.backend(), keys, self.account.id, row.manifest_id)
            manifests.update((manifest.manifest_id, *manifest.ancestors))
            units.update((pack, int(unit)) for pack, wanted in manifest.needed_units() for unit in np.flatnonzero(wanted))
        return units, manifests

    def stored_units(self, *, damaged: bool = False) -> set[tuple[str, int]]:
        """Every unit that a pack object of any generation lists; where nothing is said to be damaged, each is read too."""
        units: set[tuple[str, int]] = set()
        keys = key.keys_to_read(self.account.id)
        for name in self.object_names():
            if name.word == "pack":
                index = load_pack_index(storage.backend(), keys, self.account.id, name.object_id, name.generation)
                _, good = read_good_units(storage.backend(), keys, self.account.id, index, index.layout.numbers)
                assert damaged or (good.all() and not len(index.layout.lost))
                fresh = {(name.object_id, int(unit)) for unit in (*index.layout.numbers, *index.layout.lost)}
                assert units.isdisjoint(fresh), "two generations of a pack"
                units |= fresh
        return units

    def stored_plain(self) -> set[bytes]:
        """The plain content of every unit in every pack object that can be read."""
        found: set[bytes] = set()
        keys = key.keys_to_read(self.account.id)
        for name in self.object_names():
            if name.word == "pack":
                index = load_pack_index(storage.backend(), keys, self.account.id, name.object_id, name.generation)
                content, good = read_good_units(storage.backend(), keys, self.account.id, index, index.layout.numbers)
                found.update(unit.tobytes() for unit in content[good])
        return found

    def object_names(self):
        parsed = [parse_key(listed.key) for listed in storage.backend().list("")]
        assert None not in parsed, "an object of unknown name"
        return [name for name in parsed if name is not None and name.account_id == self.account.id]

    def path(self, key_: str) -> Path:
        backend = storage.backend()
        assert isinstance(backend, LocalBackend)
        return path_of(backend.root, key_)


def facts_of(row: Checkpoint) -> Mapping[str, object]:
    """As workers/save/capture.py writes them."""
    session = row.session
    return {
        "pin": row.pin_id,
        "pin_facts": row.pin.facts,
        "watermarks": {"events": row.event_watermark},
        "checkpoint": row.id,
        "session": session.id,
        "epoch": row.source_epoch,
        "taken_at": row.created_at.isoformat(),
        "boundary": row.boundary,
        "reason": row.reason,
        "parent": row.parent_id,
        "image": session.image_digest,
        "image_name": session.image_name,
        "machine": {"memory_bytes": session.memory_bytes, "cpus": session.cpus, "architecture": session.architecture},
    }
