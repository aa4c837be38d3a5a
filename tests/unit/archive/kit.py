"""Archives made by the standard library, which a test then makes worse."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable

from sessions_app.archive.canonical import Counted, canonical

TAR, GZIP, ZIP = "application/x-tar", "application/gzip", "application/zip"
MTIME = 1_700_000_000


Change = Callable[[tarfile.TarInfo], None]


def tar_of(*entries: tuple[str, bytes | str], kind: int = tarfile.GNU_FORMAT, change: Change | None = None) -> bytes:
    """Name and content; a name that ends in / is a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name, content in entries:
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name.rstrip("/"))
            info.size, info.mode, info.uname = len(data), 0o640, "client"
            if name.endswith("/"):
                info.type, info.size = tarfile.DIRTYPE, 0
            if change is not None:
                change(info)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def zip_of(*entries: tuple[str, bytes | str], mode: int = 0o100644, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr, info.compress_type = 3, (0o040755 if name.endswith("/") else mode) << 16, packing
            archive.writestr(info, content)
    return out.getvalue()


def read(data: bytes, media_type: str = TAR) -> bytes:
    """The tar of ours. Raises ArchiveRefused."""
    return b"".join(canonical(io.BytesIO(data), media_type, MTIME, Counted()))


def held(data: bytes, media_type: str = TAR) -> dict[str, bytes | None]:
    """What the tar of ours holds, as the standard library reads it; None for a directory."""
    with tarfile.open(fileobj=io.BytesIO(read(data, media_type))) as tar:
        return {one.name: None if one.isdir() else tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 1)
