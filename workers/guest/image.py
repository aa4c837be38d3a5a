"""An image directory: what is in it, how it is named by its content, and how it is read back."""

import errno
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from workers.guest.errors import ImageError
from workers.machine.driver import GuestImage

DESCRIPTION = "image.json"
DISK = "disk.raw"
READ_BYTES = 4 << 20


@dataclass(frozen=True)
class Description:
    """The content of image.json. `kernel`, `initrd` and `disk` are file names beside it; sizes are in bytes (memory: MiB)."""

    name: str
    digest: str
    architecture: str
    kernel: str
    initrd: str
    disk: str | None
    disk_bytes: int  # virtual size, 0 without a disk
    command_line: str
    default_memory_mib: int
    recipe_digest: str
    distribution: str
    packages: dict[str, str]  # name: version

    def files(self) -> list[str]:
        return [name for name in (self.kernel, self.initrd, self.disk) if name is not None]


def image_digest(architecture: str, command_line: str, file_digests: dict[str, str]) -> str:
    """The content digest of an image, 64 hexadecimal digits.

    SHA-256 over the JSON text (sorted keys, no spaces, UTF-8) of {"architecture", "command_line", "files"}, where files maps each of
    "kernel", "initrd" and, if there is one, "disk.raw" to the SHA-256 of its bytes. What the machine does not see (the recipe, the names
    of packages, the default size) is not in it: two builds with equal content are one image.
    """
    parts = {"architecture": architecture, "command_line": command_line, "files": file_digests}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Of the file's bytes. Holes are hashed as the zeros they are without being read: most of a root disk is one, and to read it takes
    longer than to hash it.
    """
    digest, zeros = hashlib.sha256(), bytes(READ_BYTES)
    with path.open("rb", buffering=0) as file:
        at, size = 0, os.fstat(file.fileno()).st_size
        while at < size:
            start, end = _next_data(file.fileno(), at, size)
            for hole in range(at, start, READ_BYTES):
                digest.update(zeros[: start - hole])
            at = start
            while at < end:
                piece = os.pread(file.fileno(), min(READ_BYTES, end - at), at)
                if not piece:
                    raise ImageError(f"{path} became shorter while it was read.")
                digest.update(piece)
                at += len(piece)
    return digest.hexdigest()


def _next_data(descriptor: int, at: int, size: int) -> tuple[int, int]:
    """Where the data from this offset on begins and ends; the file's end twice where only a hole is left."""
    try:
        start = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return size, size
    return start, os.lseek(descriptor, start, os.SEEK_HOLE)


def read_description(directory: Path) -> Description:
    """Raises ImageError if the directory holds no image of a form we know."""
    try:
        description = Description(**json.loads((directory / DESCRIPTION).read_text()))
    except FileNotFoundError:
        raise ImageError(f"{directory} holds no image: it has no {DESCRIPTION}. Build one with `python -m workers.guest NAME`.") from None
    except (OSError, ValueError, TypeError) as error:
        raise ImageError(f"{directory / DESCRIPTION} cannot be read ({error}). Delete the directory and build the image again.") from error
    unsafe = [name for name in description.files() if Path(name).name != name]
    if unsafe:
        raise ImageError(f"{directory / DESCRIPTION} names a file outside its directory ({unsafe[0]}); the image is not used.")
    return description


def write_description(directory: Path, description: Description) -> None:
    (directory / DESCRIPTION).write_text(json.dumps(asdict(description), indent=1, sort_keys=True) + "\n")


def load_image(directory: Path) -> GuestImage:
    """The image of a directory, checked for the presence and size of its files, not for their bytes (see verify_image).

    Raises ImageError that names what is missing.
    """
    description = read_description(directory)
    for name in description.files():
        if not (directory / name).is_file():
            raise ImageError(f"The image in {directory} lacks its file {name}. Delete the directory and build the image again.")
    disk = directory / description.disk if description.disk else None
    if disk is not None and disk.stat().st_size != description.disk_bytes:
        raise ImageError(f"{disk} is {disk.stat().st_size} bytes long, not {description.disk_bytes}. Delete the directory and build again.")
    return GuestImage(
        digest=description.digest,
        name=description.name,
        architecture=description.architecture,
        kernel=directory / description.kernel,
        initrd=directory / description.initrd,
        disk=disk,
        disk_bytes=description.disk_bytes,
        command_line=description.command_line,
    )


def verify_image(directory: Path) -> GuestImage:
    """Like load_image, and every byte is hashed: raises ImageError unless the content is what the digest says."""
    image, description = load_image(directory), read_description(directory)
    found = image_digest(image.architecture, image.command_line, {name: sha256_of(directory / name) for name in description.files()})
    if found != image.digest:
        raise ImageError(
            f"The image in {directory} is not what it was: its content has the digest {found}. "
            "It was not used. Delete the directory and build the image again."
        )
    return image


def list_images(images_directory: Path) -> list[GuestImage]:
    """Every image of a directory that loads, by name, the newest of a name last.

    What does not load (deleted by half, damaged) is left out: one bad directory must not hide the others. load_image says what it lacks.
    """
    found = []
    for path in images_directory.glob(f"*/{DESCRIPTION}"):
        try:
            found.append((path.stat().st_mtime_ns, load_image(path.parent)))
        except (ImageError, FileNotFoundError):
            continue
    return [image for _, image in sorted(found, key=lambda pair: (pair[1].name, pair[0], pair[1].digest))]
