"""Where a process has mapped its guest's memory image."""

from dataclasses import dataclass

from workers.machine.driver import PAGE_BYTES, MachineError


@dataclass(frozen=True)
class Segment:
    """One stretch of the image in the process: bytes `offset` .. `offset + length` of the image lie at `address`."""

    address: int
    offset: int
    length: int


def find_mapping(pid: int, inode: int, memory_bytes: int) -> tuple[Segment, ...]:
    """The private mappings of the file with this inode number, by offset; together they are exactly the image.

    The kernel may list one mapping in pieces. A mapping that is not whole, or mapped twice, raises `capture_failed`:
    a page that we do not find would be missing from the checkpoint without a sign.
    """
    segments = sorted(_private_segments(pid, inode), key=lambda segment: segment.offset)
    expected = 0
    for segment in segments:
        if segment.offset != expected:
            break
        expected += segment.length
    if expected != memory_bytes or sum(segment.length for segment in segments) != memory_bytes:
        raise MachineError("capture_failed", f"The memory of process {pid} is not one whole private image; nothing was saved.")
    return tuple(segments)


def _private_segments(pid: int, inode: int) -> list[Segment]:
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                fields = line.split(maxsplit=5)
                if int(fields[4]) == inode and fields[1][1:2] == b"w" and fields[1][3:4] == b"p":
                    start, end = (int(part, 16) for part in fields[0].split(b"-"))
                    found.append(Segment(start, int(fields[2], 16), end - start))
    except (FileNotFoundError, ProcessLookupError) as error:
        raise MachineError("machine_dead", f"Process {pid} is gone; nothing was saved.") from error
    if any(segment.address % PAGE_BYTES or segment.length % PAGE_BYTES for segment in found):
        raise MachineError("capture_failed", f"The guest memory of process {pid} is not mapped in whole pages; nothing was saved.")
    return found
