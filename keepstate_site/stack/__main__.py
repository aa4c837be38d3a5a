"""`python -m keepstate_site.stack COMMAND`: what the launcher hands over to."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from keepstate_site.stack import commands, host, keys, up
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import PROJECT, default_root

#: Without arguments the whole suite runs on five processes: on two cores, for many tests wait for a machine, and one for faults. The tests
#: of a file stay together, and so do files that share a stack, which come first (tests/conftest.py): ordered by their number they would
#: come last, and one process would wait.
WHOLE_SUITE = ["-n", "5", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not long"]
HELP = frozenset({"-h", "--help"})
TEST_USAGE = """usage: keepstate test [PYTEST ARGS]

The tests, with a database and a broker of their own below <var>/test. Without arguments: all but those marked `long`, by several processes.
Arguments are pytest's own: ./keepstate test tests/unit -k relay -x"""


def main(argv: list[str]) -> int:
    command, rest = (argv[0], argv[1:]) if argv else ("help", [])
    try:
        if command == "up":
            return _up(rest)
        if command == "host":
            return _host(rest)
        if command == "manage":
            return _manage(rest)
        if command == "run":
            return commands.run(default_root(), rest)
        if command == "test":
            return _test(rest)
        if command == "doctor":
            from keepstate_site.stack.doctor import report

            return report.main(rest)
    except StackError as error:
        sys.stderr.write(f"keepstate: {error}\n")
        return error.code
    sys.stderr.write("usage: python -m keepstate_site.stack up|host|manage|run|test|doctor ...\n")
    return 2


def _up(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="keepstate up")
    parser.add_argument("--var", type=Path, default=default_root(), help="the root of all state (default: KEEPSTATE_VAR, else ./var)")
    parser.add_argument("--port", type=int, help="port on 127.0.0.1; 0: any free one (default: 8080, or any free one where that is taken)")
    parser.add_argument("--hosts", type=int, default=1, metavar="N", help="as many hosts on this machine; 0: web, beat and control alone")
    parser.add_argument("--account", default="demo", help="the account whose API token is printed")
    parser.add_argument("--logs", action="store_true", help="print every process's output as well")
    parser.add_argument("--ready-file", type=Path, help="written as JSON once the stack serves")
    parser.add_argument("--services-only", action="store_true", help="only the database and the broker")
    parser.add_argument("--fake-provider", action="store_true", help="a fake answers in place of every model provider; no model is called")
    parser.add_argument("--show-credentials", action="store_true", help="print the admin login and the API token; start nothing")
    options = parser.parse_args(argv)
    return up.show_credentials(options.var) if options.show_credentials else up.up(options)


def _host(argv: list[str]) -> int:
    """With `--id` the workers of that host; anything else is `manage.py host`, which tells of the fleet's hosts and changes them."""
    if any(word == "--id" or word.startswith("--id=") for word in argv):
        return host.main(argv, default_root())
    if argv and set(argv) <= HELP:
        host.parser(default_root()).print_usage()
        print("       with --id: the workers of one host; else what follows.\n", flush=True)
    return _manage(["host", *argv])


def _manage(argv: list[str]) -> int:
    """Help needs neither database nor broker, nor the installation's own keys, which need not be there yet."""
    words = [sys.executable, *(["-B"] if sys.dont_write_bytecode else []), str(PROJECT / "manage.py"), *argv]
    if HELP.intersection(argv):
        return subprocess.run(words, env={**keys.made_up(), **os.environ}, check=False).returncode
    return commands.run(default_root(), words)


def _test(argv: list[str]) -> int:
    """pytest with a database and a broker of its own; the guest images are the checkout's."""
    if HELP.intersection(argv):
        print(TEST_USAGE)
        return 0
    root = default_root()
    for name in ("DATABASE_URL", "REDIS_URL", "CHECKPOINT_STORE_URL"):
        os.environ.pop(name, None)  # tests create, flush and drop: never on a server that someone else uses
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ.setdefault("KEEPSTATE_IMAGES", str(root / "images"))
    return commands.run(root / "test", [sys.executable, "-m", "pytest", *(argv or WHOLE_SUITE)], lasting=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
