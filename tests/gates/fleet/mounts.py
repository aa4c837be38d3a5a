"""Mounts that a killed host left below a test's directory: those of lazy images, whose process is gone."""

from pathlib import Path

from workers.host.lazy import unmount


def below(directory: Path) -> list[Path]:
    fields = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    places = [Path(field[4].encode().decode("unicode_escape")) for field in fields]
    return [place for place in places if place != directory and place.is_relative_to(directory.resolve())]


def unmount_below(directory: Path) -> None:
    for place in below(directory):
        unmount(place)
