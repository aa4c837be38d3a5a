"""An export file's bytes: a header, then records, each sealed. Byte table: docs/export-format.md.

A file begins with a *segment*, and so does each continuation of a cut one: 32 random bytes from which the key of the records that follow is
derived. What was written after the last whole record is thrown away and written anew under another key, so that a key never meets a nonce
twice, whatever the compressor makes of the same units the second time.
"""

import os
import struct
from enum import IntEnum

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .errors import IntegrityError
from .ids import UNIT_BYTES
from .keys import SecretKey

MAGIC = b"KSEXPO\r\n"
VERSION = 1
HEADER = struct.Struct("<8sHH32sI")  # magic, version, unit bytes, export id, stored bytes of the head
RECORD = struct.Struct("<BI")  # kind, stored bytes of the body
FRAME_UNITS = 256
ZERO_UNITS = 4096  # of a frame that only says that units are zero
MAX_HEAD_BYTES = 256 << 10
TAG_BYTES = 16
SALT_BYTES = 32
MAX_BODY_BYTES = (64 << 10) + FRAME_UNITS * UNIT_BYTES  # more than runs, digest and units of the largest frame
_CONTEXT = "KeepState export v1: record key"


class RecordKind(IntEnum):
    HEAD = 0  # sealed like a record; its place is in the header
    SEGMENT = 1
    ZEROS = 2
    UNITS = 3
    TRAILER = 4


class ExportCutError(IntegrityError):
    """The file ends before its trailer: the export was interrupted, or the file was cut. What is there is authentic up to `whole_bytes`."""

    def __init__(self, export_id: str, whole_bytes: int):
        super().__init__("export", export_id, f"it is cut: whole up to byte {whole_bytes}, and its end is missing. Continue the export")
        self.whole_bytes = whole_bytes


class Seal:
    """The sealing of one export's records. `start_segment` before the first record that is not the head."""

    def __init__(self, key: SecretKey, export_id: bytes):
        self._key, self._export_id = key, export_id
        self._cipher = self._derived(bytes(SALT_BYTES))

    def start_segment(self, salt: bytes) -> None:
        self._cipher = self._derived(salt)

    def seal(self, kind: RecordKind, number: int, plain: bytes) -> bytes:
        return self._cipher.encrypt(_nonce(kind, number), plain, self._binding(kind))

    def open(self, kind: RecordKind, number: int, sealed: bytes) -> bytes:
        """`number` is the count of frames before it. IntegrityError if a bit, the key, the place or the file is another."""
        try:
            return self._cipher.decrypt(_nonce(kind, number), sealed, self._binding(kind))
        except InvalidTag:
            wrong = "another key sealed it, or its head is damaged" if kind is RecordKind.HEAD else f"record {number} is not authentic"
            raise self.refusal(wrong) from None

    def refusal(self, reason: str) -> IntegrityError:
        return IntegrityError("export", self._export_id.hex(), reason)

    def _derived(self, salt: bytes) -> AESGCM:
        return AESGCM(blake3(self._key.reveal() + self._export_id + salt, derive_key_context=_CONTEXT).digest())

    def _binding(self, kind: RecordKind) -> bytes:
        return MAGIC + struct.pack("<HB", VERSION, kind) + self._export_id


def _nonce(kind: RecordKind, number: int) -> bytes:
    return struct.pack(">IQ", kind, number)


def header_of(key: SecretKey, head: bytes) -> bytes:
    """The beginning of a new file, whose id is drawn here."""
    export_id = os.urandom(32)
    sealed = Seal(key, export_id).seal(RecordKind.HEAD, 0, head)
    return HEADER.pack(MAGIC, VERSION, UNIT_BYTES, export_id, len(sealed)) + sealed


def segment_of(seal: Seal, number: int) -> bytes:
    """A new segment, from which `seal` seals from now on. Its empty body only proves that the key's holder began it here."""
    salt = os.urandom(SALT_BYTES)
    seal.start_segment(salt)
    return RECORD.pack(RecordKind.SEGMENT, SALT_BYTES + TAG_BYTES) + salt + seal.seal(RecordKind.SEGMENT, number, b"")


def record_of(seal: Seal, kind: RecordKind, number: int, body: bytes) -> bytes:
    sealed = seal.seal(kind, number, body)
    return RECORD.pack(kind, len(sealed)) + sealed
