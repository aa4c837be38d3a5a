"""A private Redis for doorbells: unix socket only, append-only file synced each second, nothing evicted."""

import os
import shutil
import socket

from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.home import Home

MEMORY = "256mb"  # doorbells are tiny and expire; full means refused writes, and the sweeper rings again
READY_SECONDS = 60
STOP_SECONDS = 15


def find() -> str | None:
    return shutil.which("redis-server")


def spec(home: Home) -> Spec:
    binary = find()
    if binary is None:
        raise StackError("redis-server was not found. Install the package `redis-server`, or set REDIS_URL to a server.")
    directory, path = home.data / "redis", home.sockets / "redis.sock"
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(directory),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": MEMORY,
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "pidfile": str(home.data / "redis" / "redis.pid"),
    }
    argv = [binary]
    for name, value in options.items():
        argv += [f"--{name}", value]
    return Spec(
        name="redis",
        argv=argv,
        ready=lambda: _answers(str(path)),
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        cwd=directory,
        user=home.user,
        ready_seconds=READY_SECONDS,
        stop_seconds=STOP_SECONDS,
    )


def _answers(path: str) -> bool:
    """PONG, in Redis' own protocol: while it loads its file it accepts connections and answers -LOADING."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        try:
            client.connect(path)
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False
