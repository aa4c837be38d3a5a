"""Files of a running session's machine: listed, read, downloaded, written. Nothing here wakes a session.

All of it goes through short exchanges with the guest (`steps.guest_files`), so memory is bounded by one exchange and a save can take
place between two of them. What the guest says is believed of the guest alone: sizes are counted and hashes computed here again.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sessions_app.errors import Conflict, GuestSilent, Invalid, TooLarge
from sessions_app.models import Session
from sessions_app.services import activity, bounds, guest_path, steps
from sessions_app.services.database import give_back_connection
from sessions_app.services.guest_files import GuestFiles, Listing, Piece, Target, Written
from sessions_app.services.operation import require_state
from sessions_app.states import OperationKind

TEMPORARY_PREFIX = ".keepstate-put-"
#: Which bytes of a file are wanted: (size, sha256) -> (start, stop), 0 <= start <= stop <= size.
Choose = Callable[[int, str | None], tuple[int, int]]


@dataclass(frozen=True)
class Download:
    """Bytes `start` to `stop` (exclusive) of a file of `size` bytes. `sha256` is the whole file's; None above `bounds.HASHED_BYTES`."""

    size: int
    mtime: int
    sha256: str | None
    start: int
    stop: int
    pieces: Iterator[bytes]


@dataclass(frozen=True)
class Stored:
    path: str
    written: Written
    sha256: str


def listing(session: Session, path: str) -> tuple[str, str, Listing]:
    """(the workspace, the path as it was understood, at most FILE_ENTRIES entries)"""
    wanted = guest_path.checked(path)
    files = reach(session)
    return files.root, wanted, files.listing(wanted, bounds.FILE_ENTRIES)


def content(session: Session, path: str, *, offset: int, count: int) -> tuple[str, Piece]:
    """Up to `count` (at most FILE_READ_BYTES) bytes from `offset`, as one state of the file. Raises Conflict if it changes meanwhile."""
    wanted = _readable(path)
    files = reach(session)
    first = _read(files, wanted, offset, min(count, files.piece_bytes))
    data = bytearray(first.data)
    while len(data) < min(count, max(0, first.size - offset)):
        data += _same(first, _read(files, wanted, offset + len(data), min(count - len(data), files.piece_bytes))).data
    return wanted, Piece(first.size, first.mtime, first.mode, first.identity, first.real_path, None, bytes(data))


def download(session: Session, path: str, *, choose: Choose) -> Download:
    """`choose` is told the file's size and SHA-256 (None for a large file) and says which bytes are wanted.

    The bytes come while the caller takes them. A file that changes under way, or a whole file whose bytes are not those that were hashed,
    ends the iteration with an error before its last piece: what was received is then shorter than promised.
    """
    wanted = _readable(path)
    files = reach(session)
    facts = _read(files, wanted, 0, 0)
    if facts.size > bounds.DOWNLOAD_BYTES:
        raise TooLarge(
            f"The file has {facts.size} bytes; at most {bounds.DOWNLOAD_BYTES} are given out. Nothing was read.",
            next_action="Split it in the machine, or read ranges with .../files/content.",
        )
    if facts.size <= bounds.HASHED_BYTES:
        facts = _same(facts, files.read(wanted, 0, 0, hashed=True))
    start, stop = choose(facts.size, facts.sha256)
    return Download(facts.size, facts.mtime, facts.sha256, start, stop, _pieces(session, files, wanted, facts, start, stop))


def write(
    session: Session, path: str, chunks: Iterable[bytes], *, mode: int | None = None, sha256: str | None = None, only_new: bool = False
) -> Stored:
    """Replace or make a file, whole or not at all. `sha256` is what the caller means to send.

    Raises PathExists (`only_new`), TooLarge, Conflict (what arrived is not what was meant); the file at the path is then as it was.
    """
    wanted = guest_path.checked(path)
    directory, _, name = wanted.rpartition("/")
    if not name or name.startswith(TEMPORARY_PREFIX):
        raise Invalid("The path names no file that can be written. Nothing was written.", code="ks_path_refused")
    files = reach(session)
    target = Target(directory, name, TEMPORARY_PREFIX + secrets.token_hex(16), only_new)
    files.begin(target)
    try:
        size, digest = _transfer(session, files, target, chunks)
        if sha256 is not None and digest != sha256:
            raise Conflict(
                "The bytes that arrived do not have the SHA-256 that was announced. Nothing was written.",
                code="ks_digest_mismatch",
                next_action="Send them again.",
                facts={"sha256_received": digest, "bytes_received": size},
            )
        return Stored(wanted, files.commit(target, size, digest, mode), digest)
    except BaseException:
        _abort(files, target)
        raise


def _transfer(session: Session, files: GuestFiles, target: Target, chunks: Iterable[bytes]) -> tuple[int, str]:
    """(how many bytes, their SHA-256)"""
    digest, size, told = hashlib.sha256(), 0, time.monotonic()
    for piece in _regular(chunks, files.piece_bytes):
        if size + len(piece) > bounds.UPLOAD_BYTES:
            raise TooLarge(f"A file that is written has at most {bounds.UPLOAD_BYTES} bytes. Nothing was written.")
        digest.update(piece)
        files.put(target, size, piece)
        size += len(piece)
        told = tell_use(session, told)
    return size, digest.hexdigest()


def whole(session: Session, files: GuestFiles, path: str) -> tuple[Piece, Iterator[bytes]]:
    """A file's facts, and its bytes as one state of it, while the caller takes them. Prerequisite: `path` was checked, `files` reached."""
    facts = _read(files, path, 0, 0)
    return facts, _pieces(session, files, path, facts, 0, facts.size)


def _pieces(session: Session, files: GuestFiles, path: str, facts: Piece, start: int, stop: int) -> Iterator[bytes]:
    whole = facts.sha256 is not None and (start, stop) == (0, facts.size)
    digest, told = hashlib.sha256(), time.monotonic()
    while start < stop:
        data = _same(facts, _read(files, path, start, min(files.piece_bytes, stop - start))).data
        start += len(data)
        digest.update(data)
        if whole and start == stop and digest.hexdigest() != facts.sha256:
            raise Conflict("The file's bytes are not those that the machine had hashed; it changed meanwhile.", code="ks_path_changed")
        yield data
        told = tell_use(session, told)


def reach(session: Session) -> GuestFiles:
    """The files of the session's machine. Raises WrongState where it does not run, FleetUnavailable where it cannot be reached."""
    require_state(session, OperationKind.EXEC)
    activity.touch(session)
    give_back_connection()  # a transfer takes as long as the guest does
    return steps.guest_files.call(session)


def _readable(path: str) -> str:
    wanted = guest_path.checked(path)
    guest_path.require_readable(wanted)
    return wanted


def _read(files: GuestFiles, path: str, offset: int, count: int) -> Piece:
    """A link may lead to a file whose name says more than the link's: both are looked at."""
    piece = files.read(path, offset, count)
    guest_path.require_readable(piece.real_path)
    if len(piece.data) != max(0, min(count, piece.size - offset)):
        raise GuestSilent("The machine gave another number of bytes than it had promised.", next_action="Ask again.")
    return piece


def _same(first: Piece, later: Piece) -> Piece:
    if (first.identity, first.size) != (later.identity, later.size):
        raise Conflict("The file changed while it was read.", code="ks_path_changed", next_action="Read it again.")
    return later


def _regular(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size, the last one shorter."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def tell_use(session: Session, told: float) -> float:
    """A transfer goes on: told to the idle policy now and then. Takes and returns when that was last."""
    if time.monotonic() - told < activity.TELL_EVERY_SECONDS:
        return told
    activity.touch(session)
    give_back_connection()
    return time.monotonic()


def _abort(files: GuestFiles, target: Target) -> None:
    """Best effort: what stays is removed by a later transfer into the directory."""
    try:
        files.abort(target)
    except Exception:  # noqa: S110  the failure that led here is the one to tell
        pass
