"""A directory of the guest as rows."""

import stat

from sessions_app.services.guest_files import Entry, Listing
from workers.files import scripts
from workers.files.refusal import FileRefused
from workers.machine.script import RunsScripts

NAME_BYTES = 255
ROW_END = b"//\n"  # which no name contains
TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
LARGEST = 1 << 62


def list_path(machine: RunsScripts, path: str, limit: int) -> Listing:
    """At most `limit` entries, in the order of their names' bytes. Raises FileRefused, MachineError."""
    output = scripts.run(machine, ["list"], path, [str(limit)], output_limit=limit * (NAME_BYTES + 64) + 64)
    head, _, rows = output.partition(b"\n")
    kind, _, count = head.partition(b" ")
    if kind not in (b"directory", b"file") or not count.isdigit() or len(count) > 12:
        raise FileRefused("failed", "The machine's account of the directory makes no sense.")
    entries = [_entry(row) for row in rows.split(ROW_END)[:-1][:limit]]
    return Listing(kind == b"directory", entries, max(int(count), len(entries)))


def _entry(row: bytes) -> Entry:
    facts, separator, raw = row.partition(b" ./")
    words = facts.split(b" ")
    if not separator or not raw or b"/" in raw or b"\0" in raw or len(raw) > NAME_BYTES or len(words) != 3:
        raise FileRefused("failed", "The machine's account of the directory makes no sense.")
    size, mtime, mode = scripts.numbers(b" ".join([*words[1:], words[0]]), 3)
    name = printable(raw)
    return Entry(name, name.encode() == raw, TYPES.get(stat.S_IFMT(mode), "other"), min(size, LARGEST), mode & 0o7777, min(mtime, LARGEST))


def printable(raw: bytes) -> str:
    """A name without anything that could steer a terminal or a page: what is no printable text is written as \\x.. or \\u...."""
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
