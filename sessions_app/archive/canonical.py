"""An archive of anybody's as a tar of ours: the same plain files and directories, and nothing else of what was sent."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from sessions_app.archive import source, tar_reader, tar_writer, zip_reader
from sessions_app.archive.member import Member
from sessions_app.archive.names import Names, path_of
from sessions_app.archive.refusal import ArchiveRefused, ArchiveTooLarge
from sessions_app.archive.source import Source
from sessions_app.services import bounds

#: Beyond the files' own bytes: headers and padding of a tar with as many entries as are taken.
_OVERHEAD_BYTES = 64 * 1024 * 1024


def _tar(file: BinaryIO) -> Iterator[Member]:
    return tar_reader.members(Source(source.plain(file)))


def _tar_gz(file: BinaryIO) -> Iterator[Member]:
    return tar_reader.members(Source(source.unzipped(file, bounds.WORKSPACE_UNPACKED_BYTES + _OVERHEAD_BYTES)))


#: By media type, how an archive is read.
READERS: Mapping[str, Callable[[BinaryIO], Iterator[Member]]] = {
    "application/gzip": _tar_gz,
    "application/x-tar": _tar,
    "application/zip": zip_reader.members,
}


@dataclass
class Counted:
    """How many files went by, and their bytes. Complete once the tar was read to its end."""

    files: int = 0
    content_bytes: int = 0


def canonical(file: BinaryIO, media_type: str, mtime: int, counted: Counted) -> Iterator[bytes]:
    """The tar, made while it is read. Raises ArchiveRefused or ArchiveTooLarge, before or in the middle: then nothing of it is to be used.

    `media_type` is one of READERS. The file is read from where it stands (a zip from its beginning). Every entry gets `mtime`
    (seconds since 1970).
    """
    names = Names()
    for member in READERS[media_type](file):
        path = path_of(member.name)
        if not path and member.is_dir:
            continue  # the root itself: `tar c .` names it
        if not path:
            raise ArchiveRefused("The archive's root is a file.", name=member.name)
        for directory in names.add(path, member.is_dir):
            yield tar_writer.directory(directory, mtime)
        if not member.is_dir:
            counted.files += 1
            counted.content_bytes += member.size
            if counted.content_bytes > bounds.WORKSPACE_UNPACKED_BYTES:
                raise ArchiveTooLarge(f"Unpacked, the archive's files have more than {bounds.WORKSPACE_UNPACKED_BYTES} bytes.")
            yield from tar_writer.file(path, member.executable, member.size, mtime, member.content)
    yield tar_writer.END
