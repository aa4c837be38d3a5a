"""The host's distribution and its package archive, as the host's own apt is configured to reach it.

No archive is named here: mirrors, proxies and local archives work as they do for the host.
"""

import platform
from dataclasses import dataclass
from pathlib import Path

from workers.guest.commands import run
from workers.guest.errors import ImageError

ORIGINS = {"debian": "Debian", "ubuntu": "Ubuntu"}
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
KEYRINGS = (  # a release that no longer trusts its archive keys globally still ships them here
    "/usr/share/keyrings/{id}-archive-keyring.gpg",
    "/usr/share/keyrings/{id}-archive-keyring.pgp",
)
TARGET = "$(CREATED_BY)|$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ARCHITECTURE)"


@dataclass(frozen=True)
class Distribution:
    id: str  # debian or ubuntu
    codename: str

    @property
    def label(self) -> str:
        return f"{self.id} {self.codename}"


def this_distribution() -> Distribution:
    """The running host's. Raises ImageError for any but Debian and Ubuntu."""
    release = platform.freedesktop_os_release()
    id_, codename = release.get("ID", ""), release.get("VERSION_CODENAME", "")
    if id_ not in ORIGINS or not codename:
        raise ImageError(f"Guest images are built on Debian or Ubuntu; this host is {release.get('PRETTY_NAME', 'unknown')}.")
    return Distribution(id_, codename)


@dataclass(frozen=True)
class Sources:
    """Where packages come from: one-line-style sources. `foreign`: the distribution's name of the architecture, if it is not the host's."""

    lines: str
    foreign: str | None = None


def debian_architecture(architecture: str) -> str:
    """The distribution's name of the architecture. Raises ImageError for one without images."""
    if architecture not in DEBIAN_ARCHITECTURES:
        raise ImageError(f"There are no guest images for {architecture}; there are for {', '.join(DEBIAN_ARCHITECTURES)}.")
    return DEBIAN_ARCHITECTURES[architecture]


def archive_sources(distribution: Distribution, architecture: str) -> Sources:
    """Sources of the distribution alone, no third party's. Raises ImageError where apt has no package lists.

    For another architecture than the host's: what the host's apt was told of that one, else Debian's archive as the host reaches it, which
    holds every architecture. (Ubuntu keeps them in different archives, and which mirror is meant only the host's owner can say.)
    """
    rows = run(["apt-get", "indextargets", "--format", TARGET]).splitlines()
    wanted, here = debian_architecture(architecture), debian_architecture(platform.machine())
    foreign = wanted if wanted != here else None
    lines = sources_of(rows, distribution, wanted)
    if not lines and foreign and distribution.id == "debian":
        lines = sources_of(rows, distribution, here, wanted)
    if not lines and foreign and distribution.id != "debian":
        raise ImageError(
            f"apt knows no archive of {distribution.label} for {wanted}. Add one to its sources, run `apt-get update`, try again."
        )
    if not lines:
        raise ImageError(f"apt knows no package list of {distribution.label}. Run `apt-get update` as root and try again.")
    return Sources(lines, foreign)


def sources_of(rows: list[str], distribution: Distribution, listed: str, wanted: str | None = None) -> str:
    """Sources lines for the index targets that are the distribution's own, of this release (updates and security included).

    `listed`: the architecture whose targets are taken; `wanted`: the one that is asked for there, if it is another.
    """
    keyring = next((path for path in (Path(name.format(id=distribution.id)) for name in KEYRINGS) if path.exists()), None)
    options = f"[arch={wanted or listed}" + (f" signed-by={keyring}]" if keyring else "]")
    lines: dict[str, None] = {}  # ordered, without doubles
    for row in rows:
        created, origin, code, uri, suite, component, arch = row.split("|")
        ours = origin == ORIGINS[distribution.id] and code.split("-")[0] == distribution.codename
        if created == "Packages" and ours and arch == listed and "backports" not in suite:
            lines[f"deb {options} {uri} {suite} {component}\n"] = None
    return "".join(lines)


def apt_settings() -> str:
    """The host's settings of how apt fetches (proxies, date checks, retries), as an apt configuration file."""
    lines = run(["apt-config", "dump", "--format", '%f "%v";%n', "Acquire"]).splitlines()
    not_fetching = ("Acquire::IndexTargets", "Acquire::Languages")
    return "".join(f"{line}\n" for line in lines if not line.startswith(not_fetching) and not line.endswith('"";'))
