"""Python, distribution packages, QEMU, PostgreSQL and Redis."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from keepstate_site.stack import postgres, redis_server
from keepstate_site.stack.doctor.finding import Finding, failed, ok, unknown, warn
from keepstate_site.stack.paths import PROJECT

OLDEST_PYTHON = (3, 11)
OLDEST_REDIS = 6
QEMU_PACKAGES = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}
DONE_WITHOUT = ("peers", "arm64")  # only `./keepstate bench store` needs the peers, and installs them itself; arm64 machines are a choice
LISTS = (PROJECT / "keepstate_site" / "setup" / "packages.txt", PROJECT / "workers" / "guest" / "packages.txt")


def python() -> Iterator[Finding]:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        yield failed("python", f"{sys.executable} is {version}; 3.11 or newer is needed", "apt-get install python3 python3-venv")
        return
    yield ok("python", f"{version} ({sys.executable})")
    environment = Path(os.environ.get("KEEPSTATE_VAR") or PROJECT / "var") / "venv"
    stamped = any(environment.glob(".keepstate-*"))
    yield (
        ok("requirements", f"installed in {environment}")
        if stamped
        else warn("requirements", f"not installed in {environment}", "any command but doctor does it")
    )


def packages() -> Iterator[Finding]:
    if shutil.which("dpkg-query") is None:
        yield unknown("packages", "this system has no dpkg; compare the lists yourself", " and ".join(str(file) for file in LISTS))
        return
    for group, names in sorted(wanted().items()):
        gone = [name for name in names if not installed(name)]
        name, judge = f"packages for {group}", warn if group in DONE_WITHOUT else failed
        yield judge(name, f"missing: {' '.join(gone)}", f"apt-get install {' '.join(gone)}") if gone else ok(name, " ".join(names))


def wanted() -> dict[str, list[str]]:
    """Group -> package names, for this distribution."""
    release = platform.freedesktop_os_release()
    here = {"all", release.get("ID", ""), f"{release.get('ID')}:{release.get('VERSION_ID')}"}
    groups: dict[str, list[str]] = {}
    for line in (line for file in LISTS if file.exists() for line in file.read_text().splitlines()):
        fields = [field.strip() for field in line.split("|")]
        if not line.lstrip().startswith("#") and len(fields) == 4 and fields[1] in here:
            groups.setdefault(fields[0], []).append(fields[2])
    return groups


def installed(package: str) -> bool:
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status}", package], capture_output=True, text=True, timeout=20, check=False
    )
    return answer.stdout == "installed"


def qemu() -> Iterator[Finding]:
    program = f"qemu-system-{platform.machine()}"
    found = shutil.which(program)
    if found is None:
        yield failed("qemu", f"{program} was not found", "apt-get install qemu-system-x86 qemu-utils")
        return
    yield ok("qemu", f"{_first_line(found, '--version')} ({found})")
    yield from other_architectures()
    if shutil.which("qemu-img") is None:
        yield failed("qemu-img", "not found", "apt-get install qemu-utils")


def other_architectures() -> Iterator[Finding]:
    """What else this host emulates. One without it registers without that architecture, and takes no session of it."""
    for architecture, package in QEMU_PACKAGES.items():
        found = shutil.which(f"qemu-system-{architecture}")
        if architecture == platform.machine():
            continue
        if found is None:
            text = f"qemu-system-{architecture} was not found: this host takes no {architecture} sessions"
            yield warn(f"qemu {architecture}", text, f"apt-get install {package}, then start the workers again, if it should")
        else:
            yield ok(f"qemu {architecture}", f"{_first_line(found, '--version')} ({found}), emulated")


def databases() -> Iterator[Finding]:
    if os.environ.get("DATABASE_URL"):
        yield ok("postgres", "DATABASE_URL names a server; the embedded one is not used")
    elif found := postgres.find():
        yield ok("postgres", ", ".join(f"{item.major} ({item.directory})" for item in found))
    else:
        yield failed("postgres", f"no PostgreSQL {postgres.OLDEST} or newer", "apt-get install postgresql, or set DATABASE_URL")
    if os.environ.get("REDIS_URL"):
        yield ok("redis", "REDIS_URL names a server; the embedded one is not used")
        return
    binary = redis_server.find()
    if binary is None:
        yield failed("redis", "redis-server was not found", "apt-get install redis-server, or set REDIS_URL")
        return
    match = re.search(r"v=(\d+)\.", line := _first_line(binary, "--version"))
    if match is None:
        yield unknown("redis", f"its version cannot be read: {line}")
    elif int(match.group(1)) < OLDEST_REDIS:
        yield failed("redis", line, f"install Redis {OLDEST_REDIS} or newer")
    else:
        yield ok("redis", line)


def _first_line(*argv: str) -> str:
    answer = subprocess.run(list(argv), capture_output=True, text=True, timeout=20, check=True)
    return answer.stdout.split("\n", 1)[0][:120]
