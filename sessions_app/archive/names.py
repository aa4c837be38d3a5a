"""Names of an archive's entries: relative, printable, and each a path of its own wherever it is unpacked."""

import unicodedata

from sessions_app.archive.refusal import ArchiveRefused, ArchiveTooLarge
from sessions_app.errors import Invalid
from sessions_app.services import bounds, guest_path


def path_of(raw: bytes) -> str:
    """The name as a path without empty and `.` segments; empty for the root itself. Raises ArchiveRefused."""
    if len(raw) > bounds.WORKSPACE_PATH_BYTES:
        raise ArchiveRefused(f"A name in the archive has more than {bounds.WORKSPACE_PATH_BYTES} bytes.", name=raw)
    try:
        path = guest_path.checked(guest_path.checked(raw.decode("utf-8")))  # `./~` is `~` once it is a path
    except UnicodeDecodeError as error:
        raise ArchiveRefused("A name in the archive is not UTF-8.", name=raw) from error
    except Invalid as error:
        raise ArchiveRefused("A name in the archive is not relative printable text, or it has '..' or a backslash.", name=raw) from error
    if path.count("/") >= bounds.WORKSPACE_DEPTH:
        raise ArchiveRefused(f"A name in the archive is more than {bounds.WORKSPACE_DEPTH} directories deep.", name=raw)
    return path


class Names:
    """The paths so far. Two of them that differ in case alone would be one on another file system, and are refused."""

    def __init__(self) -> None:
        self._is_dir: dict[str, bool] = {}
        self._folded: dict[str, str] = {}
        self._files = 0

    def add(self, path: str, is_dir: bool) -> list[str]:
        """The directories that are new with it, outermost first. Raises ArchiveRefused; a directory may be named again."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        new = [directory for directory in [*above, *([path] if is_dir else [])] if self._enter(directory)]
        if not is_dir:
            self._add_file(path)
        return new

    def _enter(self, directory: str) -> bool:
        known = self._is_dir.get(directory)
        if known is False:
            raise ArchiveRefused("A name in the archive is a file and a directory.", name=directory)
        if known is None:
            self._add(directory, True)
        return known is None

    def _add_file(self, path: str) -> None:
        if path in self._is_dir:
            raise ArchiveRefused("Two entries of the archive have the same name.", name=path)
        self._files += 1
        if self._files > bounds.WORKSPACE_FILES:
            raise ArchiveTooLarge(f"The archive has more than {bounds.WORKSPACE_FILES} files.")
        self._add(path, False)

    def _add(self, path: str, is_dir: bool) -> None:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        if folded in self._folded:
            raise ArchiveRefused("Two names in the archive differ in case alone.", name=path)
        if len(self._is_dir) >= bounds.WORKSPACE_ENTRIES:
            raise ArchiveTooLarge(f"The archive has more than {bounds.WORKSPACE_ENTRIES} files and directories.")
        self._folded[folded], self._is_dir[path] = path, is_dir
