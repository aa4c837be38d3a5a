"""The web process: `python -m keepstate_site.serve FD`, a socket that a supervisor has bound and passed on; or `ADDRESS:PORT`, where
there is none, in a container.
"""

import os
import socket
import sys
from typing import Any

import uvicorn

from keepstate_site.console.protocol import ConsoleProtocol

STOP_SECONDS = 20
CONSOLE_MESSAGE_BYTES = 64 * 1024
PING_SECONDS = 20.0
OPTIONS: dict[str, Any] = {
    "lifespan": "off",
    "http": ConsoleProtocol,
    "ws": "websockets-sansio",
    "ws_max_size": CONSOLE_MESSAGE_BYTES,
    "ws_ping_interval": PING_SECONDS,
    "ws_ping_timeout": PING_SECONDS,
    "ws_per_message_deflate": False,  # what is typed and what is printed must not be compressed together
    "log_config": None,  # the settings have set up JSON logs
    "server_header": False,
    "timeout_graceful_shutdown": STOP_SECONDS,
}


class Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Event streams have no end of their own: each is told one, so that nobody waits for them."""
        from keepstate_site.events.hub import hub

        hub.end_all("server_stops")
        await super().shutdown(sockets)


def listener(where: str) -> socket.socket:
    """Raises OSError where the address is taken, ValueError for what is neither."""
    if where.isdecimal():
        return socket.socket(fileno=int(where))
    address, _, port = where.rpartition(":")
    return socket.create_server((address, int(port)), backlog=512)


def main(where: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "keepstate_site.settings")
    from django.conf import settings

    # Whoever connects could send a proxy's headers himself, and be another address at each request: they count only where a proxy is known.
    proxied = settings.SECURE_PROXY_SSL_HEADER is not None
    config = uvicorn.Config("keepstate_site.asgi:application", proxy_headers=proxied, **OPTIONS)
    Server(config).run(sockets=[listener(where)])


if __name__ == "__main__":
    main(sys.argv[1])
