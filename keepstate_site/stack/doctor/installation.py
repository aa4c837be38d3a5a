"""Images, settings, and the servers that the environment names."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from keepstate_site.stack import lock
from keepstate_site.stack.doctor.finding import Finding, failed, ok, unknown, warn
from keepstate_site.stack.home import CLOSED_CHECKOUTS
from keepstate_site.stack.paths import PROJECT, Paths, default_root

IMAGES = ("debian-python", "tiny", "tiny-arm64")
CONNECT_SECONDS = 5


def images() -> Iterator[Finding]:
    directory = Paths(default_root()).images
    built = {json.loads(file.read_text()).get("name"): file.parent.name for file in directory.glob("*/image.json")}
    for name in IMAGES:
        if name in built:
            yield ok(f"image {name}", built[name][:23])
        else:
            yield warn(f"image {name}", f"not built in {directory}", "up, test, bench and prove build it; demo builds what it needs itself")


def settings() -> Iterator[Finding]:
    root = default_root()
    python = root / "venv" / "bin" / "python"
    if not python.exists():
        yield unknown("settings", "requirements are not installed, so the settings cannot be read")
        return
    given = os.environ.get("KEEPSTATE_SECRET_KEY") and os.environ.get("KEEPSTATE_MASTER_KEY")
    if not given and not (root / "secrets" / "master_key").exists():
        yield unknown(
            "settings", f"{root / 'secrets'} has no keys yet, so the settings cannot be read", "./keepstate up makes them when it starts"
        )
        return
    argv = [str(python), "manage.py", "check", "--tag", "security", "--fail-level", "WARNING"]
    answer = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    said = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    if answer.returncode == 0:
        yield ok("settings", "no problem found")
        return
    problems = [line for line in said if "(keepstate." in line or "(security." in line] or said[-1:]
    for line in problems:
        yield warn("settings", line) if ".W" in line else failed("settings", line, "see docs/operations/configure.md")


def servers() -> Iterator[Finding]:
    for name, default_port in (("DATABASE_URL", 5432), ("REDIS_URL", 6379)):
        url = os.environ.get(name)
        if not url:
            yield ok(name, "not set: the embedded server is used")
            continue
        address = address_of(url, default_port)
        try:
            _connect(address)
        except OSError as error:
            yield failed(name, f"{_shown(address)} does not accept connections: {error}", "start the server, or correct the variable")
        else:
            yield ok(name, f"{_shown(address)} accepts connections (login not tried)")
    yield from store()


def store() -> Iterator[Finding]:
    url = os.environ.get("CHECKPOINT_STORE_URL")
    if not url:
        yield ok("CHECKPOINT_STORE_URL", f"not set: {default_root() / 'store'} is used")
        return
    parts = urlsplit(url)
    if parts.scheme == "s3":
        yield bucket(parts)
        return
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or not path.is_absolute():
        yield failed(
            "CHECKPOINT_STORE_URL", f"{parts.scheme}:// is not a store that this version has", "use file:///directory or s3://bucket"
        )
    elif not path.is_dir():
        yield warn(
            "CHECKPOINT_STORE_URL", f"{path} does not exist yet", "the first save makes it; for a mounted disk, look whether it is mounted"
        )
    elif not os.access(path, os.W_OK | os.X_OK):
        yield failed("CHECKPOINT_STORE_URL", f"{path} cannot be written by this user", f"chown it, or run as its owner ({path.owner()})")
    else:
        yield ok("CHECKPOINT_STORE_URL", f"{path} can be written")


def bucket(url: SplitResult) -> Finding:
    """Its server alone: whether the bucket is there and may be written is asked with the fleet's other parts."""
    endpoint = dict(parse_qsl(url.query)).get("endpoint")
    if not endpoint:
        return ok("CHECKPOINT_STORE_URL", f"the bucket {url.netloc} of AWS (connection not tried)")
    address = address_of(endpoint, 443 if endpoint.startswith("https:") else 80)
    try:
        _connect(address)
    except OSError as error:
        return failed(
            "CHECKPOINT_STORE_URL", f"{_shown(address)} does not accept connections: {error}", "start the server, or correct the URL"
        )
    return ok("CHECKPOINT_STORE_URL", f"{_shown(address)} accepts connections (login not tried)")


def address_of(url: str, default_port: int) -> str | tuple[str, int]:
    """Where to connect: a unix socket's path, or host and port."""
    parts = urlsplit(url)
    host = dict(parse_qsl(parts.query)).get("host") or unquote(parts.hostname or "")
    if parts.scheme == "unix":
        return unquote(parts.path)
    if host.startswith("/"):
        return f"{host}/.s.PGSQL.{parts.port or default_port}"
    return (host or "127.0.0.1", parts.port or default_port)


def _connect(address: str | tuple[str, int]) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    if family == socket.AF_INET:
        socket.create_connection(address, CONNECT_SECONDS).close()  # type: ignore[arg-type]  # a pair, by the branch
        return
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(CONNECT_SECONDS)
        client.connect(address)


def _shown(address: str | tuple[str, int]) -> str:
    return address if isinstance(address, str) else f"{address[0]}:{address[1]}"


def stack() -> Iterator[Finding]:
    paths = Paths(default_root())
    found = lock.holder(paths)
    yield ok("stack", f"runs (process {found['pid']})" if found else "does not run")
    for directory in CLOSED_CHECKOUTS.glob("*/root") if CLOSED_CHECKOUTS.exists() else ():
        root = Path(directory.read_text().strip())
        id_file = root / "instance_id"
        if not id_file.exists() or id_file.read_text().strip() != directory.parent.name:
            yield warn(
                "orphaned data",
                f"{directory.parent} belongs to {root}, which is gone",
                f"if nothing there is wanted: rm -r {directory.parent}",
            )
