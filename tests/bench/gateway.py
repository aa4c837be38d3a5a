"""`./keepstate bench gateway`: what a model call costs on its way through the gateway, beside LiteLLM's proxy and the bare provider."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from keepstate_site.stack import commands
from keepstate_site.stack.paths import default_root
from tests.bench import gateway_peer
from tests.bench.report import Row, parser, publish, quantile, rate_row, row
from tests.support.outside_data import remove_below

METHOD = (
    "A fake provider, the gateway with one channel on loopback (uvloop), LiteLLM's proxy (one worker, no database) and PostgreSQL, each a "
    "process of its own on the same cores as the client. Every call is recorded: its row and its end are two commits, fsync on. One after "
    "another on one open connection: 15 warm-ups, then rounds of 25 calls each to the provider, the gateway and the proxy in turn; the "
    "figure of a round is the difference of its medians: what the way adds. At once: 32 connections that ask anew as soon as they are "
    "answered, one burst after another, the proxy's one burst of 64 calls. Requests of some 1.3 kB, answers of 94 words: one JSON, or a "
    "stream of about 100 events, sent at once. A replay and a continued stream are whole answers out of the record. Memory: growth of the "
    "process with 200 streams open, each after 50 events."
)
BUDGETS = {"added": 5.0, "again": 10.0, "json": 300.0, "stream": 250.0}


def main() -> int:
    made = parser(METHOD, rounds=("rounds of 25 calls one after another", 7), bursts=("bursts of 32 at once", 5))
    made.add_argument("--without-peer", action="store_true", help="do not install and measure LiteLLM's proxy")
    options = made.parse_args()
    peer = "" if options.without_peer else str(gateway_peer.installed(default_root() / "peers"))
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as directory:
        told = Path(directory) / "told.json"
        facts = {"told": str(told), "rounds": options.rounds, "bursts": options.bursts, "peer": peer}
        command = [sys.executable, "-m", "tests.bench.gateway", "inside", json.dumps(facts)]
        try:
            code = commands.run(Path(directory) / "var", command)
        finally:
            remove_below(Path(directory))
        if code:
            return code
        return publish("gateway", METHOD, rows_of(json.loads(told.read_text())), options.json, peer=gateway_peer.PACKAGE if peer else None)


def rows_of(measured: dict[str, Any]) -> list[Row]:
    """`measured` as tests.bench.gateway_measures tells it, by form of the call."""
    return [made for form, facts in measured.items() for made in _rows(form, facts)]


def _rows(form: str, facts: dict[str, Any]) -> list[Row]:
    least = BUDGETS[facts["transport"]]
    beside = {who: quantile(values, 0.5) for who, values in facts["added_peer"].items()}
    rows = [row(f"{form}: added, last byte", "ms", facts["added"]["total"], budget=BUDGETS["added"], at="p50", **_peer(beside, "total"))]
    if facts["transport"] == "stream":
        rows.append(row(f"{form}: added, first byte", "ms", facts["added"]["first"], at="p50", **_peer(beside, "first")))
    rates = {who: round(quantile([one["rate"] for one in bursts], 0.5), 1) for who, bursts in facts["bursts"].items()}
    ours = facts["bursts"].pop("gateway")
    besides = {who: rate for who, rate in rates.items() if who != "gateway"}
    rows.append(rate_row(f"{form}: 32 at once", "/s", [one["rate"] for one in ours], least=least, **besides))
    rows.append(row(f"{form}: 32 at once, a call", "ms", [took for one in ours for took in one["took"]]))
    spent = {who: round(quantile([one["processor"] for one in bursts], 0.5), 3) for who, bursts in facts["bursts"].items()}
    rows.append(row(f"{form}: the process's own time, a call", "ms", [one["processor"] for one in ours], at="p50", **spent))
    rows.append(row(f"{form}: 32 at once, p99 of a burst", "ms", [quantile(one["took"], 0.99) for one in ours]))
    rows.append(row(f"{form}: replayed", "ms", facts["replayed"], budget=BUDGETS["again"]))
    if "continued" in facts:
        rows.append(row(f"{form}: continued from its middle", "ms", facts["continued"]))
    if "memory" in facts:
        peers = {who: round(quantile(values, 0.5), 1) for who, values in facts["memory"].items() if who != "gateway"}
        rows.append(row(f"{form}: memory while open", "KiB", facts["memory"]["gateway"], at="p50", **peers))
    return rows


def _peer(beside: dict[str, float], which: str) -> dict[str, float]:
    return {"litellm": round(beside[which], 2)} if which in beside else {}


def inside(facts: dict[str, Any]) -> None:
    """In the stack's environment: migrate, start what is measured, and measure."""
    import django

    django.setup()
    from django.core.management import call_command

    from tests.bench import gateway_measures

    call_command("migrate", interactive=False, verbosity=0)
    directory = Path(facts["told"]).parent
    measured = gateway_measures.measure(facts["rounds"], facts["bursts"], Path(facts["peer"]) if facts["peer"] else None, directory)
    Path(facts["told"]).write_text(json.dumps(measured))


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(json.loads(sys.argv[2]))
        raise SystemExit(0)
    raise SystemExit(main())
