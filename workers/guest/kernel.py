"""The kernel and its modules, taken out of unpacked packages."""

import lzma
import re
from dataclasses import dataclass
from pathlib import Path

from workers.guest.errors import ImageError

LARGEST_MODULE_BYTES = 64 << 20


@dataclass(frozen=True)
class Kernel:
    image: Path
    release: str
    modules: Path  # its directory of modules


def find_kernel(tree: Path) -> Kernel:
    """The one kernel in a tree of unpacked packages. Raises ImageError if there is none, or more than one."""
    images = sorted((tree / "boot").glob("vmlinu[xz]-*"))
    if len(images) != 1:
        raise ImageError(f"The kernel packages hold {len(images)} kernels where one was expected. Nothing was published.")
    release = images[0].name.split("-", 1)[1]
    for place in ("usr/lib/modules", "lib/modules"):  # after and before the merge of /usr
        if (tree / place / release / "kernel").is_dir():
            return Kernel(images[0], release, tree / place / release)
    raise ImageError(f"The kernel packages hold no modules of {release}. Nothing was published.")


def modules_in_order(kernel: Kernel, names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """(file name, content) of the named modules and of what they depend on, uncompressed, in an order in which they load.

    A module that is built into the kernel is left out; raises ImageError for one that is neither, unless its name ends in "?".
    """
    builtin = {canonical(line) for line in (kernel.modules / "modules.builtin").read_text().splitlines()}
    files = {canonical(path.name): path for path in kernel.modules.rglob("*.ko*")}
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in builtin or name in ordered:
            return
        if name not in files:
            raise ImageError(f"The kernel {kernel.release} has no module {name}, and has not built it in. Nothing was published.")
        content = uncompressed(files[name])
        for dependency in dependencies(content):
            add(dependency)
        ordered[name] = content

    for name in names:
        if not name.endswith("?") or canonical(name[:-1]) in files:
            add(canonical(name.removesuffix("?")))
    return [(f"{name}.ko", content) for name, content in ordered.items()]


def canonical(name: str) -> str:
    """The kernel takes - and _ in a module's name for the same."""
    return Path(name).name.split(".ko")[0].replace("-", "_")


def dependencies(module: bytes) -> list[str]:
    """The modules that a module says it needs (its `depends=` line, which the build of the kernel wrote)."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [canonical(name) for name in found[1].decode().split(",") if name] if found else []


def uncompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(content, memlimit=LARGEST_MODULE_BYTES * 2)
    if path.suffix == ".zst":
        import zstandard  # not in a Python's own library, which is all that most kernels need

        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return content
