"""Fetching packages of the distribution without installing anything on the host."""

import re
from pathlib import Path

from workers.guest.commands import run
from workers.guest.distribution import Sources
from workers.guest.errors import ImageError


class Archive:
    """apt with an empty machine in mind: `work` holds its sources, its (empty) state and what it fetched.

    The host's package lists are read, nothing of the host is written, and no root is needed. For an architecture that is not the host's
    (`sources.foreign`) the lists are fetched into `work` as well: the host has none, and is not told of it.
    """

    def __init__(self, sources: Sources, work: Path):
        self.packages = work / "packages"
        (self.packages / "partial").mkdir(parents=True)
        (work / "sources.list").write_text(sources.lines)
        (work / "status").touch()
        settings = {
            "Dir::Etc::SourceList": work / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::status": work / "status",
            "Dir::Cache::archives": self.packages,
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Debug::NoLocking": "1",  # nothing shared is written, so an apt that runs on the host does not matter
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "0",
        }
        if sources.foreign:
            (work / "lists" / "partial").mkdir(parents=True)
            settings |= {"Dir::State::lists": work / "lists", "Acquire::Languages": "none"}
            settings |= {"APT::Architecture": sources.foreign, "APT::Architectures::": sources.foreign}
        self.options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        if sources.foreign:
            run(["apt-get", *self.options, "--error-on=any", "update"])

    def fetch_with_dependencies(self, *names: str) -> list[Path]:
        """The .deb files of the packages and of everything that they need."""
        before = set(self.packages.glob("*.deb"))
        run(["apt-get", *self.options, "--yes", "--download-only", "install", *names])
        return sorted(set(self.packages.glob("*.deb")) - before)

    def fetch_kernel(self, package: str) -> list[Path]:
        """The .deb files that hold the kernel and the modules of a kernel metapackage; not the tools that install kernels."""
        wanted, found = [package], dict[str, None]()
        while wanted:
            name = wanted.pop()
            if name not in found:
                found[name] = None
                wanted += kernel_parts(self.depends(name))
        before = set(self.packages.glob("*.deb"))
        run(["apt-get", *self.options, "download", *(list(found)[1:] or [package])], cwd=self.packages)
        return sorted(set(self.packages.glob("*.deb")) - before)

    def depends(self, name: str) -> str:
        shown = run(["apt-cache", *self.options, "show", "--no-all-versions", name])
        return next((line for line in shown.splitlines() if line.startswith("Depends:")), "")


def kernel_parts(depends: str) -> list[str]:
    """The packages in a Depends line that carry a kernel image or its modules.

    Debian has both in one package; Ubuntu puts the modules in one of their own and names a set of rarely used ones beside them.
    """
    names = re.findall(r"(?:^|[\s,|])(linux-(?:image|modules)-[a-z0-9.+-]+)", depends.removeprefix("Depends:"))
    return [name for name in names if not name.startswith("linux-modules-extra")]


def unpack(packages: list[Path], tree: Path) -> dict[str, str]:
    """Unpack .deb files into a tree, run none of their scripts, and return their names and versions."""
    versions = {}
    for package in packages:
        run(["dpkg-deb", "--extract", package, tree])
        fields = run(["dpkg-deb", "--showformat=${Package} ${Version}", "--show", package]).split()
        if len(fields) != 2:
            raise ImageError(f"{package.name} names no package and version; it may be damaged. Nothing was published; try again.")
        versions[fields[0]] = fields[1]
    return versions
