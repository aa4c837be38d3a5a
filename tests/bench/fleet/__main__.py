"""`./keepstate bench fleet`: three hosts under random work and a fault every few seconds; nothing may be lost, wrong or left over."""

import argparse
import signal
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.fleet.soak import Soak, Wanted
from tests.bench.report import publish
from tests.gates.fleet.room import fleet

METHOD = (
    "Three hosts on one machine, each with processes, directories and queues of its own; a PostgreSQL, Redis and SeaweedFS (S3) for "
    "them; machines of the image tiny. A few clients step, save, kill, resume, fork, move and delete at random, an operator moves "
    "sessions too (the service behind `host move`), and a fault comes every few seconds from a table, by a seed. After each answer of a "
    "machine its whole heap is compared with a model that is kept outside. Resume: of those that clients ask for, from the acceptance "
    "of the request to the guest's answer, by the database's clock, under this load; those that failed are counted below, and not in "
    "it. Answers again: from a fault's begin to the next right answer of each session that it touched, asked for by clients that are "
    "busy with others too; how long the fault lasts is in it (beside: how often it came, sessions touched, seconds it lasted, answers "
    "while it lasted); a session that was deleted before has none. Away: from the begin of a move's save to the guest's answer on the "
    "other host. Short times as in the gates: lease 6 s, a host is silent after 3 s and lost after 5."
)


def main() -> int:
    parser = argparse.ArgumentParser(description=METHOD.replace("%", "%%"))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two acts of a client (default: 0.3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault-every", type=float, default=20, metavar="SECONDS")
    parser.add_argument("--bound", type=float, default=180, help="seconds within which every operation must end (default: 180)")
    parser.add_argument("--journal", type=Path, default=Path("fleet-journal.jsonl"), help="every event, a line each")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit ends the bench, not its report
    wanted = Wanted(
        options.minutes * 60, options.sessions, options.clients, options.pause, options.seed, options.fault_every, options.bound
    )
    with tempfile.TemporaryDirectory(prefix="keepstate-fleet-") as scratch, fleet(Path(scratch), s3=True) as opened:
        soak = Soak(opened, wanted, options.journal)
        soak.run()
    details = soak.details()
    missed = publish("fleet", METHOD, soak.rows(), options.json, **details)
    _print(details)
    return int(bool(soak.findings) or bool(missed))


def _print(details: dict[str, Any]) -> None:
    for act, ends in details["operations"].items():
        print(f"operations  {act:7} {', '.join(f'{count} {end}' for end, count in ends.items())}")
    for when, kinds in details["left over"].items():
        there = [f"{count} {what}" for what, count in kinds.items() if count]
        print(f"left over, {when}: {', '.join(there) or 'nothing'}, of {len(kinds)} kinds")
    for name in ("attempts", "moves by an operator", "answers compared with the model", "sessions", "looked at", "accelerators"):
        print(f"{name}: {details[name]}")
    for finding in details["findings"]:
        print(f"FINDING {finding}")
    print("Nothing was lost, wrong or left over." if not details["findings"] else f"{len(details['findings'])} findings.")


if __name__ == "__main__":
    raise SystemExit(main())
