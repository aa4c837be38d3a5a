"""The archive is the host's own, without third parties."""

import platform

import pytest

from workers.guest import distribution
from workers.guest.archive import kernel_parts
from workers.guest.distribution import Distribution, archive_sources, sources_of
from workers.guest.errors import ImageError

BOOKWORM = Distribution("debian", "bookworm")
ROWS = [
    "Packages|Debian|bookworm|http://mirror.example/debian/|bookworm|main|amd64",
    "Packages|Debian|bookworm|http://mirror.example/debian/|bookworm|main|amd64",
    "Translations|Debian|bookworm|http://mirror.example/debian/|bookworm|main|amd64",
    "Packages|Debian|bookworm-security|http://mirror.example/security/|bookworm-security|main|amd64",
    "Packages|Debian|bookworm-backports|http://mirror.example/debian/|bookworm-backports|main|amd64",
    "Packages|Debian|trixie|http://mirror.example/debian/|trixie|main|amd64",
    "Packages|Debian|bookworm|http://mirror.example/debian/|bookworm|main|i386",
    "Packages|Vendor|bookworm|http://vendor.example/|bookworm|main|amd64",
]


def places(sources: str) -> list[list[str]]:
    return [line.split("] ")[1].split() for line in sources.splitlines()]


def test_only_the_release_itself_is_a_source():
    assert places(sources_of(ROWS, BOOKWORM, "amd64")) == [
        ["http://mirror.example/debian/", "bookworm", "main"],
        ["http://mirror.example/security/", "bookworm-security", "main"],
    ]


def test_ubuntu_has_one_codename_for_all_its_pockets():
    rows = [f"Packages|Ubuntu|noble|http://mirror.example/ubuntu/|{suite}|main|amd64" for suite in ("noble", "noble-updates")]
    assert [place[1] for place in places(sources_of(rows, Distribution("ubuntu", "noble"), "amd64"))] == ["noble", "noble-updates"]


def test_another_architecture_is_asked_for_at_the_same_places():
    own, other = sources_of(ROWS, BOOKWORM, "amd64"), sources_of(ROWS, BOOKWORM, "amd64", "arm64")
    assert places(other) == places(own)
    assert all("arch=arm64" in line for line in other.splitlines())


@pytest.fixture
def x86_host(monkeypatch):
    monkeypatch.setattr(distribution, "run", lambda argv: "\n".join(ROWS))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("x86_host")
def test_the_hosts_own_architecture_needs_no_lists_of_its_own():
    assert archive_sources(BOOKWORM, "x86_64").foreign is None
    assert archive_sources(BOOKWORM, "aarch64").foreign == "arm64"


@pytest.mark.usefixtures("x86_host")
def test_where_the_archives_are_apart_the_hosts_owner_must_name_the_other(monkeypatch):
    monkeypatch.setattr(distribution, "ORIGINS", {"ubuntu": "Ubuntu"})
    with pytest.raises(ImageError, match="Add one to its sources"):
        archive_sources(Distribution("ubuntu", "noble"), "aarch64")


def test_a_host_without_package_lists_has_no_sources():
    assert sources_of([], BOOKWORM, "amd64") == ""


@pytest.mark.parametrize(
    ("depends", "parts"),
    [
        ("Depends: linux-image-6.1.0-57-amd64 (= 6.1.192-3)", ["linux-image-6.1.0-57-amd64"]),
        ("Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool", []),
        ("Depends: linux-image-6.8.0-50-generic, linux-modules-extra-6.8.0-50-generic", ["linux-image-6.8.0-50-generic"]),
        ("Depends: kmod, linux-base (>= 4.5ubuntu1~16.04.1), linux-modules-6.8.0-50-generic", ["linux-modules-6.8.0-50-generic"]),
        ("", []),
    ],
)
def test_a_kernel_package_leads_to_its_image_and_modules(depends: str, parts: list[str]):
    assert kernel_parts(depends) == parts
