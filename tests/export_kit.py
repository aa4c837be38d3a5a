"""What the tests of exports share: a stored checkpoint with every kind of unit, its export as bytes, and an export's records."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints_app.store import (
    UNIT_BYTES,
    AccountKeys,
    Backend,
    CheckpointWriter,
    PublishedPlan,
    SecretKey,
    UnitIndex,
    derive_keys,
    load_index,
)
from checkpoints_app.store.export_format import HEADER, RECORD, RecordKind
from checkpoints_app.store.export_frames import Trailer
from checkpoints_app.store.export_import import add_images
from checkpoints_app.store.export_reader import ExportReader
from checkpoints_app.store.export_writer import ExportSource, write_export
from tests.store_kit import ACCOUNT, FACTS, KEYS, Content, content, pages

EXPORT_KEY = SecretKey(bytes(range(64, 96)))
OTHER_ACCOUNT = "acct-2"
OTHER_KEYS = derive_keys(SecretKey(bytes(range(100, 132))))
BASE = "image " + "ab" * 32
DEVICES = b"device state" * 700  # two units, the last of them short


def save_machine(backend: Backend, memory: Content, disk: Mapping[int, Content | None], disk_units: int = 64) -> PublishedPlan:
    """Memory, a disk over a base (unit to content, or to None for zero; the others are the base's) and devices."""
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, load_index(backend, KEYS, ACCOUNT, None)) as writer:
        writer.add_image("memory", len(memory) * UNIT_BYTES, None, pages(memory, np.arange(len(memory))))
        held = sorted(unit for unit, data in disk.items() if data is not None)
        zero = np.array(sorted(unit for unit, data in disk.items() if data is None), np.int64)
        given = [(np.array([unit]), disk[unit].tobytes()) for unit in held]  # type: ignore[union-attr]
        writer.add_image("disk", disk_units * UNIT_BYTES, BASE, given, zero_units=zero)
        writer.add_image("devices", len(DEVICES), None, [(np.arange(-(-len(DEVICES) // UNIT_BYTES)), DEVICES)])
        return writer.finish(FACTS)


def small_machine(backend: Backend) -> PublishedPlan:
    memory = content(600, seed=1)
    memory[40:90] = 0
    memory[300:310] = memory[:10]
    return save_machine(backend, memory, {3: content(1, seed=2)[0], 4: None, 9: None, 63: content(1, seed=3)[0]})


def source_of(backend: Backend, plan: PublishedPlan, keys: AccountKeys = KEYS, account_id: str = ACCOUNT) -> ExportSource:
    return ExportSource.load(backend, keys, account_id, plan.manifest.manifest_id)


def export_to(path: Path, source: ExportSource, key: SecretKey = EXPORT_KEY) -> Trailer:
    path.touch()
    with open(path, "r+b") as file:
        return write_export(source, file, key)


def read_to_end(data: bytes, key: SecretKey = EXPORT_KEY) -> Trailer:
    reader = ExportReader(io.BytesIO(data), key)
    for _ in reader.frames():
        pass
    assert reader.trailer is not None
    return reader.trailer


def import_from(data: bytes, backend: Backend, facts: Mapping[str, Any] = FACTS) -> PublishedPlan:
    """Into the other account of that store."""
    reader = ExportReader(io.BytesIO(data), EXPORT_KEY)
    with CheckpointWriter(backend, OTHER_KEYS, OTHER_ACCOUNT, None, UnitIndex()) as writer:
        add_images(reader, writer)
        return writer.finish(facts)


def records(data: bytes) -> Iterator[tuple[RecordKind, int, int]]:
    """(kind, first byte, byte after its last) of every record behind the head."""
    at = HEADER.size + HEADER.unpack_from(data)[-1]
    while at < len(data):
        kind, stored = RECORD.unpack_from(data, at)
        yield RecordKind(kind), at, at + RECORD.size + stored
        at += RECORD.size + stored
