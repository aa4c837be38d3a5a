"""docs/clients.md: what was measured, written by the run that measured it."""

from datetime import UTC, datetime
from typing import Any

from tests.clients.judge import Run, judged

_HEAD = """# Clients and a resume: what was measured

Written by `python -m tests.clients`; only what was run stands here. Each client is the real package, asked for one short answer (five
words) from the fake provider, through the gateway, in a network that has loopback and nothing else. Then it is asked anew for each event of
that answer, with the connection reset right after so many events. *With the relay* it is the relay's connection to the gateway that is
reset, as a resume resets it; *without*, the client's own. Each run has a session of its own. No machine is resumed: that is for gates.

*Paid once*: the provider billed as many calls as for the run without a cut. *Whole*: the client ended well, with the same output as that
run. *Keep-alives*: an answer whose events came half a second apart, with keep-alives between any two, gave the same output.

| client | version | relay | cuts | paid once | whole | not whole when cut after | keep-alives | day |
|---|---|---|---|---|---|---|---|---|
"""
_FOOT = """
The relay is why a program needs no luck: it goes on from the byte that it had. Without it all depends on the client. One that does not ask
again ends with an error, or with a part of the answer. One that asks again with the same request is answered out of the record, unbilled.
One that asks again with another request (the part that it had, and "go on") gets the rest where that request continues the recorded answer
block by block; else it is a call of its own.
"""


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def text(found: dict[str, dict[str, Any]]) -> str:
    rows = [_row(one) for _, one in sorted(found.items(), key=lambda item: (item[1]["client"], item[1]["version"], not item[1]["relay"]))]
    return _HEAD + "\n".join(rows) + "\n" + _FOOT


def _row(one: dict[str, Any]) -> str:
    uncut, pinged = Run(**one["uncut"]), Run(**one["pinged"])
    verdict = judged(uncut, [Run(**run) for run in one["cut"]])
    held = "hold" if (pinged.output, pinged.code, pinged.calls) == (uncut.output, uncut.code, uncut.calls) else "do not hold"
    other = ", ".join(str(cut) for cut in verdict.other) or "-"
    cells = [one["client"], one["version"], "yes" if one["relay"] else "no", verdict.cuts, f"{verdict.paid_once} of {verdict.cuts}"]
    return "| " + " | ".join(str(cell) for cell in [*cells, f"{verdict.whole} of {verdict.cuts}", other, held, one["day"]]) + " |"
