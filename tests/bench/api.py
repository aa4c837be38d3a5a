"""`./keepstate bench api`: what reading costs by the API while an installation grows to 10^5 sessions, and what a deletion costs."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from keepstate_site.stack import commands
from tests.bench import api_erase, api_reads
from tests.bench.report import Row, parser, publish, row
from tests.support.outside_data import remove_below

METHOD = (
    "A PostgreSQL of its own with synthetic rows (tests/bench/api_rows.py): first 10^3 sessions, then 10^5, each with 10 checkpoints, 100 "
    "events, 10 operations and a pack; three sessions in five are one account's, whose token asks. The web process as a stack starts it, "
    "one client on loopback with one open connection, one request after another, from the request to the answer's last byte; pages of "
    "the default length; the first 20 requests are not counted. Deep: page 400 of the list, the end of a long history. Admin pages are an "
    "operator's, for orientation. Beside: SELECT 1 in the bench's own process, and /healthz, the floor of any answer. Deletion: the "
    "service's own function on sessions saved to a local store, which held so much alone, beside both sizes."
)
SESSIONS = (10**3, 10**5)
BUDGET_MS = 50.0


def main() -> int:
    made = parser(METHOD, rounds=("measurements of each read", 200), erasures=("measurements of each deletion", 10))
    made.add_argument("--scale", type=float, default=1.0, help="a share of the larger installation, for a trial")
    options = made.parse_args()
    if not 0 < options.scale <= 1:
        made.error("--scale is more than 0 and at most 1.")
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        told = Path(directory) / "told.json"
        large = max(1, int(SESSIONS[1] * options.scale))
        facts = {"told": str(told), "rounds": options.rounds, "erasures": options.erasures, "large": large}
        os.environ["CHECKPOINT_STORE_URL"] = (Path(directory) / "store").as_uri()
        command = [sys.executable, "-m", "tests.bench.api", "inside", json.dumps(facts)]
        try:
            code = commands.run(Path(directory) / "var", command, lasting=False)
        finally:
            remove_below(Path(directory))  # root's database lies elsewhere, and is large
        if code:
            return code
        return publish("api", METHOD, rows_of(json.loads(told.read_text())), options.json)


def rows_of(measured: list[dict[str, Any]]) -> list[Row]:
    rows = []
    for one in measured:
        budget = BUDGET_MS if one["judged"] else None
        rows.append(row(one["name"], "ms", one["milliseconds"], budget=budget))
    return rows


def inside(facts: dict[str, Any]) -> None:
    """In the stack's environment: migrate, and measure at each size."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from checkpoints_app.services import key
    from keepstate_site.stack.prepare import collect_static
    from tests.bench import api_rows

    collect_static(settings.STATIC_ROOT)
    call_command("migrate", interactive=False, verbosity=0)
    api_rows.prepare()
    key.keys_to_save(api_rows.LARGE)  # the store has something of what the database tells, as it should
    measured: list[dict[str, Any]] = []
    there = 0
    for sessions in (min(SESSIONS[0], facts["large"]), facts["large"]):
        if sessions > there:
            api_rows.grow(there, sessions - 1)
            api_rows.settle()
        there = sessions
        size = f"{sessions:.0e} sessions".replace("e+0", "e")
        print(f"{size} are there, load {os.getloadavg()[0]:.1f}", flush=True)
        measured += [{**one, "name": f"{one['name']}, {size}"} for one in api_reads.measure(facts["rounds"], Path(facts["told"]).parent)]
        measured += [{**one, "name": f"{one['name']}, {size}"} for one in api_erase.measure(facts["erasures"])]
    Path(facts["told"]).write_text(json.dumps(measured))


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(json.loads(sys.argv[2]))
        raise SystemExit(0)
    raise SystemExit(main())
