"""`./keepstate provider`: the fake provider on loopback, until it is interrupted."""

import argparse
import json
import socket
import sys
from pathlib import Path

from aiohttp import web

from keepstate_site.provider.app import Provider


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="keepstate provider", description="A fake model provider for demos, tests and benchmarks; no model."
    )
    parser.add_argument("--port", type=int, default=8099, help="of 127.0.0.1 (default 8099)")
    parser.add_argument("--fd", type=int, help="serve on this socket, which listens already, instead")
    parser.add_argument("--script", type=Path, help="JSON as for POST /fake/script: what goes wrong, call by call")
    arguments = parser.parse_args()
    provider = Provider()
    if arguments.script:
        try:
            provider.follow(json.loads(arguments.script.read_text()))
        except (OSError, ValueError, TypeError) as error:
            parser.error(f"{arguments.script}: {error}")
    listening = socket.socket(fileno=arguments.fd) if arguments.fd is not None else socket.create_server(("127.0.0.1", arguments.port))
    sys.stdout.write(f"a FAKE model provider, no model, serves on http://127.0.0.1:{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    web.run_app(provider.application(), sock=listening, print=None, access_log=None)


if __name__ == "__main__":
    main()
