"""The web process: uvicorn on a socket that the supervisor has bound and passed on. `python -m keepstate_site.serve FD`."""

import socket
import sys

import uvicorn

STOP_SECONDS = 20


def main(descriptor: int) -> None:
    config = uvicorn.Config(
        "keepstate_site.asgi:application",
        lifespan="off",
        log_config=None,  # the settings have set up JSON logs
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
