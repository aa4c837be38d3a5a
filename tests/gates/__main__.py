"""`./keepstate prove [GATE...] [--json FILE]`: run the gates, each with its sabotage, and keep the evidence."""

import argparse
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: The whole suite is content with less.
WHOLE = {
    "KEEPSTATE_CYCLES": "20",
    "KEEPSTATE_REPEATS": "3",
    "KEEPSTATE_EVERY_STEP": "1",
    "KEEPSTATE_CHILDREN": "8",
    "KEEPSTATE_HISTORIES": "20",
    "KEEPSTATE_RESUMES": "2",
    "KEEPSTATE_OUTAGE": "60",
    "KEEPSTATE_PLAIN_STACK": "1",
}


def main() -> int:
    known = files()
    parser = argparse.ArgumentParser(prog="keepstate prove", description=__doc__)
    parser.add_argument("gates", nargs="*", metavar="GATE", help=f"which gates; all if none is named: {', '.join(known)}")
    parser.add_argument("--json", type=Path, help="write the evidence to this file")
    options = parser.parse_args()
    unknown = [gate for gate in options.gates if gate not in known]
    if unknown:
        parser.error(f"no such gate: {', '.join(unknown)}; known are {', '.join(known)}")
    chosen = [file for gate in options.gates or known for file in known[gate]]
    for name, value in WHOLE.items():
        os.environ.setdefault(name, value)
    evidence = ["--gates-json", str(options.json.absolute())] if options.json else []
    return int(pytest.main([*chosen, "-v", "-p", "no:cacheprovider", *evidence]))


def files() -> dict[str, list[str]]:
    """What each gate runs, by the gate's name: the first word of the names of its files."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(HERE.glob("test_gate_*.py")):
        found[path.stem.split("_")[2]].append(str(path))
    found["store"].append(str(HERE / "store"))
    return dict(found)


if __name__ == "__main__":
    sys.exit(main())
