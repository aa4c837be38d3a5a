"""`./keepstate bench fleet`: three hosts under random work and a fault every few seconds; nothing may be lost, wrong or left over."""

import argparse
import tempfile
from pathlib import Path

from tests.bench.fleet.soak import Soak, Wanted
from tests.bench.report import publish
from tests.gates.fleet.room import fleet

METHOD = (
    "Three hosts on one machine, each with processes, directories and queues of its own; a PostgreSQL, Redis and SeaweedFS (S3) for them; "
    "machines of the image tiny. A few clients step, save, kill, resume, fork, move and delete at random, and a fault comes every few "
    "seconds from a table, by a seed. After each answer of a machine its whole heap is compared with a model that is kept outside. Resume: "
    "from the acceptance of the request to the guest's answer, by the database's clock, under this load. Answers again: from a "
    "fault's begin to the next right answer of each session that it touched, asked for by clients that are busy with others too; how long "
    "the fault lasts is in it. Short times as in the gates: lease 3 s, a host is silent after 3 s and lost after 5."
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
    wanted = Wanted(
        options.minutes * 60, options.sessions, options.clients, options.pause, options.seed, options.fault_every, options.bound
    )
    with tempfile.TemporaryDirectory(prefix="keepstate-fleet-") as scratch, fleet(Path(scratch), s3=True) as opened:
        soak = Soak(opened, wanted, options.journal)
        soak.run()
    for finding in soak.findings:
        print(f"FINDING {finding}")
    missed = publish("fleet", METHOD, soak.rows(), options.json, **soak.details())
    return int(bool(soak.findings) or bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
