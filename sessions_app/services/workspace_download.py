"""A running session's workspace as a tar of our own making: plain files and directories, read through the guest's file channel.

The guest says what there is and gives the bytes; the tar is written here, so nothing in it leads anywhere but below the directory into
which it is unpacked. What has no place in it (links, devices, names that are no text, what usually holds credentials) is left out, counted.
"""

import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sessions_app.archive import tar_writer
from sessions_app.errors import Conflict, GuestSilent, Invalid, TooLarge
from sessions_app.models import Session
from sessions_app.services import bounds, files, guest_path
from sessions_app.services.guest_files import GuestFiles, Node, Tree

#: Rows of one exchange, and what one exchange of many files may weigh; a larger file is read by itself.
ROWS = 1000
BUNDLE_BYTES = 512 * 1024
_FILE_BYTES = 4096  # that a file weighs beside its content
LEFT_OUT = ("links", "special", "names", "secrets")


@dataclass(frozen=True)
class Survey:
    """What will be sent of a directory. `left_out` counts by the words of LEFT_OUT."""

    path: str
    nodes: list[Node]
    left_out: Counter[str]


def survey(session: Session, path: str) -> Survey:
    """Raises WrongState where the session does not run, TooLarge, Conflict (it changes too fast), and what guest files raise."""
    wanted = guest_path.checked(path)
    rows = _rows(files.reach(session), wanted)
    left_out: Counter[str] = Counter()
    nodes = []
    for node in rows:
        why = _left_out(wanted, node)
        if why is None:
            nodes.append(node)
        else:
            left_out[why] += 1
    size = sum(node.size for node in nodes if node.type == "file")
    if size > bounds.DOWNLOAD_BYTES:
        raise TooLarge(f"The files have {size} bytes; at most {bounds.DOWNLOAD_BYTES} are given out. Nothing was read.", next_action=_PART)
    return Survey(wanted, nodes, left_out)


_PART = "Name a directory of the workspace with ?path=."


def _rows(guest: GuestFiles, path: str) -> list[Node]:
    found = guest.tree(path, 0, ROWS)
    _require_few(found)
    rows = list(found.nodes)
    while len(rows) < found.total:
        more = guest.tree(path, len(rows), ROWS)
        if not more.nodes or more.total != found.total:
            raise _changed()
        rows += more.nodes
    if len({node.path for node in rows}) != len(rows):
        raise _changed()
    return rows


def _require_few(found: Tree) -> None:
    if found.total > bounds.DOWNLOAD_ENTRIES:
        raise TooLarge(
            f"There are {found.total} entries; at most {bounds.DOWNLOAD_ENTRIES} are given out. Nothing was read.", next_action=_PART
        )


def _changed() -> Conflict:
    return Conflict("The workspace changed while it was listed.", code="ks_path_changed", next_action="Ask again when it is quiet.")


def _left_out(directory: str, node: Node) -> str | None:
    if node.type == "link":
        return "links"
    if node.type not in ("file", "dir"):
        return "special"
    try:
        if not node.exact or guest_path.checked(node.path) != node.path:
            return "names"
    except Invalid:
        return "names"
    full = f"{directory}/{node.path}" if directory else node.path
    return "secrets" if node.type == "file" and guest_path.is_secret(full) else None


def tar(session: Session, found: Survey) -> Iterator[bytes]:
    """The tar, read while the caller takes it. What cannot be read any more, or not as one state of it, ends it without its end mark."""
    guest, told = files.reach(session), time.monotonic()
    for node in found.nodes:
        if node.type == "dir":
            yield tar_writer.directory(node.path, node.mtime)
    for batch in _batches([node for node in found.nodes if node.type == "file"]):
        if len(batch) == 1 and batch[0].size > BUNDLE_BYTES:
            yield from _large(session, guest, found.path, batch[0])
        else:
            yield from _small(guest, found.path, batch)
        told = files.tell_use(session, told)
    yield tar_writer.END


def _batches(nodes: list[Node]) -> Iterator[list[Node]]:
    """What one exchange is for: a large file, or small ones that are together small enough."""
    batch, weight = list[Node](), 0
    for node in nodes:
        if batch and weight + node.size + _FILE_BYTES > BUNDLE_BYTES:
            yield batch
            batch, weight = [], 0
        batch.append(node)
        weight += node.size + _FILE_BYTES
    if batch:
        yield batch


def _large(session: Session, guest: GuestFiles, directory: str, node: Node) -> Iterator[bytes]:
    facts, pieces = files.whole(session, guest, f"{directory}/{node.path}" if directory else node.path)
    return tar_writer.file(node.path, bool(facts.mode & 0o100), facts.size, facts.mtime, pieces)


def _small(guest: GuestFiles, directory: str, batch: list[Node]) -> Iterator[bytes]:
    found = guest.bundle(directory, [node.path for node in batch], BUNDLE_BYTES)
    if len(found) != len(batch):
        raise GuestSilent("The machine gave another number of files than it was asked for.", next_action="Ask again.")
    for node, one in zip(batch, found, strict=True):
        yield from tar_writer.file(node.path, bool(one.mode & 0o100), len(one.data), one.mtime, [one.data])


def zipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    squeeze = zlib.compressobj(1, wbits=31)
    for piece in pieces:
        if packed := squeeze.compress(piece):
            yield packed
    yield squeeze.flush()
