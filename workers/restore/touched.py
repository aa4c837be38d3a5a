"""Which pages a machine touched right after its last resume: the next one wants the same first.

Kept per checkpoint on this host, beside the machine so that its next save takes it into that checkpoint's manifest, and read from either.
It is a hint about order and nothing else: a wrong one costs time.
"""

import base64
import binascii
import json
import logging
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints_app.store import Manifest
from checkpoints_app.store.codec import CodecError, compress, decompress
from workers.host.identity import cache_directory
from workers.machine.driver import MachineError
from workers.machine.memory.mapping import find_mapping
from workers.machine.memory.touched import touched_pages

log = logging.getLogger(__name__)

FACT = "touched"  # in a manifest's facts
NAME = "touched"  # in a machine's directory
MAX_PAGES = 1 << 16  # 256 MiB: a machine that touches more at once gains little from an order
MAX_BYTES = 48 << 10  # of a record, in a manifest
_LENGTH = struct.Struct("<I")

Pages = npt.NDArray[np.int64]
_NONE: Pages = np.empty(0, np.int64)


def record(runtime: Path, checkpoint_id: str) -> None:
    """Note what the machine of this directory has touched by now. A failure costs the next resume's order, so it is only told."""
    try:
        told = json.loads((runtime / "machine.json").read_text())
        pages = _touched(told)
        packed = encode(pages)
        if packed:
            (runtime / NAME).write_bytes(packed)
            place = _place(checkpoint_id)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(packed)
    except (OSError, ValueError, KeyError, TypeError, MachineError):
        log.warning("what the resume touched was not noted", extra={"runtime": runtime.name}, exc_info=True)


def fact_of(runtime: Path) -> dict[str, str]:
    """What the machine's next checkpoint says of it in its manifest; {} if nothing is known."""
    try:
        packed = (runtime / NAME).read_bytes()
    except FileNotFoundError:
        return {}
    return {FACT: base64.b64encode(packed).decode()} if len(packed) <= MAX_BYTES else {}


def units_to_have_first(checkpoint_id: str, manifest: Manifest) -> Pages:
    """Ascending; empty where nothing is known."""
    try:
        return decode(_place(checkpoint_id).read_bytes())
    except FileNotFoundError:
        return _in_manifest(manifest.facts.get(FACT))


def forget(checkpoint_id: str) -> None:
    _place(checkpoint_id).unlink(missing_ok=True)


def encode(pages: Pages) -> bytes:
    """b'' for no pages, and for more than a record is made of."""
    if not 0 < len(pages) <= MAX_PAGES:
        return b""
    steps = np.diff(pages, prepend=0).astype("<u4").tobytes()
    return _LENGTH.pack(len(pages)) + compress(steps)


def decode(packed: bytes) -> Pages:
    """The inverse; nothing for bytes that `encode` did not make."""
    try:
        (count,) = _LENGTH.unpack_from(packed)
        if count > MAX_PAGES:
            return _NONE
        return np.cumsum(np.frombuffer(decompress(packed[_LENGTH.size :], 4 * count), "<u4"), dtype=np.int64)
    except (struct.error, CodecError):
        return _NONE


def _in_manifest(fact: Any) -> Pages:
    try:
        return decode(base64.b64decode(fact, validate=True)) if isinstance(fact, str) else _NONE
    except (ValueError, binascii.Error):
        return _NONE


def _touched(told: dict[str, Any]) -> Pages:
    pid = int(told["process"]["pid"])
    segments = find_mapping(pid, told["memory_inode"], told["memory_bytes"])
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        return touched_pages(pagemap.fileno(), segments)


def _place(checkpoint_id: str) -> Path:
    return cache_directory() / "touched" / checkpoint_id
