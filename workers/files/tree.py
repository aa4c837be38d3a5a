"""All that lies below a directory of the guest, in rows; and many small files of it in one exchange."""

import stat
from collections.abc import Iterator, Sequence

from sessions_app.services.guest_files import Node, Small, Tree
from workers.files import scripts
from workers.files.listing import LARGEST, ROW_END, TYPES, printable
from workers.files.refusal import FileRefused
from workers.machine.script import RunsScripts

PATH_BYTES = 4096
#: Bytes that one exchange's rows take at most; a path of many hundred bytes is rare.
ROWS_BYTES = 1024 * 1024
SECONDS = 60.0
FACTS_BYTES = 128  # of one file


def tree(machine: RunsScripts, path: str, first: int, limit: int) -> Tree:
    """At most `limit` entries from the `first` (counted from 0). Raises FileRefused, MachineError."""
    output = scripts.run(machine, ["tree"], path, [str(first + 1), str(limit)], output_limit=ROWS_BYTES, seconds=SECONDS)
    head, _, rows = output.partition(b"\n")
    word, _, count = head.partition(b" ")
    if word != b"tree" or not count.isdigit() or len(count) > 12:
        raise FileRefused("failed", "The machine's account of the directory makes no sense.")
    return Tree([_node(row) for row in rows.split(ROW_END)[:-1][:limit]], int(count))


def _node(row: bytes) -> Node:
    facts, separator, raw = row.partition(b" ./")
    words = facts.split(b" ")
    if not separator or not raw or b"\0" in raw or len(raw) > PATH_BYTES or len(words) != 3:
        raise FileRefused("failed", "The machine's account of the directory makes no sense.")
    size, mtime, mode = scripts.numbers(b" ".join([*words[1:], words[0]]), 3)
    path = printable(raw)
    return Node(path, path.encode() == raw, TYPES.get(stat.S_IFMT(mode), "other"), min(size, LARGEST), mode & 0o7777, min(mtime, LARGEST))


def bundle(machine: RunsScripts, path: str, names: Sequence[str], limit: int) -> list[Small]:
    """These plain files below the directory, in this order, of at most `limit` bytes. Raises FileRefused, MachineError."""
    if not names or any("\n" in name or "\0" in name or not name for name in names):
        raise FileRefused("failed", "These are not names of files that can be asked for.")
    listed = "".join(f"./{name}\n" for name in names).encode()
    most = limit + len(names) * 2 * FACTS_BYTES
    output = scripts.run(machine, ["bundle"], path, [], data=listed, output_limit=most, seconds=SECONDS)
    *heads, rest = output.split(b"\n", len(names))
    facts = [scripts.numbers(head, 5) for head in heads]
    size = sum(one[1] for one in facts)
    if len(facts) != len(names) or size > limit or any(not stat.S_ISREG(one[4]) for one in facts):
        raise FileRefused("changed", "What lies at these paths is not what was asked for.")
    data, after = rest[:size], rest[size:]
    if after != b"".join(head + b"\n" for head in heads):
        raise FileRefused("changed", "A file changed while it was read.")
    return list(_cut(data, facts))


def _cut(data: bytes, facts: list[list[int]]) -> Iterator[Small]:
    start = 0
    for _inode, size, mtime, _ctime, mode in facts:
        yield Small(mode & 0o7777, min(mtime, LARGEST), data[start : start + size])
        start += size
