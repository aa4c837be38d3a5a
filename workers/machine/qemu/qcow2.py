"""Write a qcow2 (version 3) file of 4 KiB clusters over a raw image, in one pass and with bounded memory.

An assembled disk holds only the units that differ from the image, so assembling it copies nothing of the image.

    cluster 0: header, extension "backing format", backing name | L1 table | data and L2 tables as they come | refcount blocks | refcount
    table

Every cluster is used exactly once, so every reference count is 1 and the counts need no bookkeeping. Memory: the L1 table (8 bytes for 2
MiB of disk),
one L2 table, one write buffer. The layout is that of docs/interop/qcow2.txt in QEMU's source.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

CLUSTER = 4096
L2_ENTRIES = CLUSTER // 8
REFCOUNTS_PER_BLOCK = CLUSTER // 2  # 16 bits each
COPIED = 1 << 63  # the cluster's reference count is exactly one
ZERO = 1
HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
HEADER_LENGTH = 104
EXTENSION_BACKING_FORMAT = 0xE2792ACA
BACKING_NAME_LIMIT = 1023


def write_overlay(path: Path, disk_bytes: int, base: Path, units: Iterable[tuple[int, bytes | None]]) -> None:
    """Make `path`, a disk of `disk_bytes` that reads as `base` (raw) except for `units`.

    `units`: (unit number, its 4096 bytes, or None for zeros), in ascending order without repetition. Raises ValueError for anything else
    and OSError
    where the file cannot be written; a part of the file may then be left. Nothing is synced: the caller syncs and renames.
    """
    if disk_bytes <= 0 or disk_bytes % CLUSTER:
        raise ValueError(f"A disk of {disk_bytes} bytes is not a whole number of {CLUSTER}-byte units.")
    with open(path, "xb", buffering=1024 * 1024) as file:
        _Writer(file, disk_bytes, str(base).encode()).write(units)


class _Writer:
    def __init__(self, file: BinaryIO, disk_bytes: int, base: bytes):
        if len(base) > BACKING_NAME_LIMIT:
            raise ValueError(f"The path of the base image is longer than the {BACKING_NAME_LIMIT} bytes that qcow2 can hold.")
        self._file, self._disk_bytes, self._base = file, disk_bytes, base
        self._units = disk_bytes // CLUSTER
        self._l1 = [0] * _blocks(self._units, L2_ENTRIES)
        self._l1_clusters = _blocks(len(self._l1) * 8, CLUSTER)
        self._next = 1 + self._l1_clusters  # the cluster that is written next

    def write(self, units: Iterable[tuple[int, bytes | None]]) -> None:
        self._file.seek(self._next * CLUSTER)
        self._write_units(units)
        table, table_clusters = self._write_refcounts()
        self._file.seek(CLUSTER)
        self._file.write(_table(self._l1, self._l1_clusters * L2_ENTRIES))
        self._file.seek(0)
        self._file.write(self._header(table, table_clusters))

    def _write_units(self, units: Iterable[tuple[int, bytes | None]]) -> None:
        l2, region, previous = [0] * L2_ENTRIES, -1, -1
        for unit, data in units:
            if not previous < unit < self._units:
                raise ValueError(f"Unit {unit} follows unit {previous} on a disk of {self._units} units.")
            if unit // L2_ENTRIES != region:
                self._end_region(region, l2)
                l2, region = [0] * L2_ENTRIES, unit // L2_ENTRIES
            l2[unit % L2_ENTRIES] = ZERO if data is None else self._append(data) | COPIED
            previous = unit
        self._end_region(region, l2)

    def _end_region(self, region: int, l2: list[int]) -> None:
        if region >= 0:
            self._l1[region] = self._append(_table(l2, L2_ENTRIES)) | COPIED

    def _append(self, data: bytes) -> int:
        """Write one cluster at the end and return its offset."""
        if len(data) != CLUSTER:
            raise ValueError(f"A unit has {CLUSTER} bytes, not {len(data)}.")
        self._file.write(data)
        self._next += 1
        return (self._next - 1) * CLUSTER

    def _write_refcounts(self) -> tuple[int, int]:
        """Blocks that count every cluster, themselves and their table included. Returns the table's offset and length in clusters."""
        blocks, table_clusters = _refcount_clusters(self._next)
        total = self._next + blocks + table_clusters
        offsets = []
        for block in range(blocks):
            counted = min(REFCOUNTS_PER_BLOCK, total - block * REFCOUNTS_PER_BLOCK)
            offsets.append(self._append((b"\x00\x01" * counted).ljust(CLUSTER, b"\0")))
        table = _table(offsets, table_clusters * L2_ENTRIES)
        start = self._next * CLUSTER
        for at in range(0, len(table), CLUSTER):
            self._append(table[at : at + CLUSTER])
        return start, table_clusters

    def _header(self, refcount_table: int, refcount_table_clusters: int) -> bytes:
        extensions = struct.pack(">II8sII", EXTENSION_BACKING_FORMAT, 3, b"raw", 0, 0)
        name_at = HEADER_LENGTH + len(extensions)
        fixed = HEADER.pack(
            b"QFI\xfb", 3, name_at, len(self._base), CLUSTER.bit_length() - 1, self._disk_bytes, 0, len(self._l1), CLUSTER,
            refcount_table, refcount_table_clusters, 0, 0, 0, 0, 0, 4, HEADER_LENGTH,
        )  # fmt: skip
        return (fixed + extensions + self._base).ljust(CLUSTER, b"\0")


def _refcount_clusters(others: int) -> tuple[int, int]:
    """(blocks, table clusters) that count `others` clusters and themselves: grown until they suffice."""
    blocks, table = 1, 1
    while True:
        needed_blocks = _blocks(others + blocks + table, REFCOUNTS_PER_BLOCK)
        needed_table = _blocks(needed_blocks, L2_ENTRIES)
        if (needed_blocks, needed_table) == (blocks, table):
            return blocks, table
        blocks, table = max(blocks, needed_blocks), max(table, needed_table)


def _table(entries: list[int], length: int) -> bytes:
    return struct.pack(f">{len(entries)}Q", *entries).ljust(length * 8, b"\0")


def _blocks(count: int, per_block: int) -> int:
    return -(-count // per_block)
