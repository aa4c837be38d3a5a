"""Networks of machines that a test left: a mounted file keeps its directory from being removed."""

from pathlib import Path

from workers.machine.network import namespace


def held_below(directory: Path) -> list[Path]:
    """The files at or below `directory` that a network namespace is mounted on, as the kernel tells."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    files = [Path(fields[4].encode().decode("unicode_escape")) for fields in mounts if fields[fields.index("-") + 1] == "nsfs"]
    return [file for file in files if file.is_relative_to(directory.resolve())]


def remove_networks(directory: Path) -> None:
    for file in held_below(directory):
        namespace.remove(file)
