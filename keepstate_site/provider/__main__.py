"""`./keepstate provider`: the fake provider on loopback, until it is interrupted."""

import argparse

from aiohttp import web

from keepstate_site.provider.app import Provider


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./keepstate provider", description="A fake model provider for demos, tests and benchmarks; no model."
    )
    parser.add_argument("--port", type=int, default=8099, help="of 127.0.0.1 (default 8099)")
    arguments = parser.parse_args()
    web.run_app(Provider().application(), host="127.0.0.1", port=arguments.port, handle_signals=True)


if __name__ == "__main__":
    main()
