"""`./keepstate bench rate`: how many of so many fresh machines survive a SIGKILL."""

import tempfile
from pathlib import Path

from keepstate_site.client import Refused
from tests.bench.report import parser, publish, row
from tests.bench.wilson import wilson
from tests.gates.room import Room, Subject, room

METHOD = (
    "Each cycle is a fresh machine of the image tiny: boot it, start a program that holds a random nonce in its memory and "
    "counts, save it live, SIGKILL its hypervisor, resume it over HTTP. It has survived if the program goes on with the same "
    "nonce, from a count that is not less than the last that was read before the save was asked for. Refusals and time-outs "
    "count as losses. The interval is Wilson's, 95 %."
)
CYCLES = 200


def main() -> int:
    options = parser(METHOD, cycles=("fresh machines", CYCLES)).parse_args()
    losses: list[str] = []
    with tempfile.TemporaryDirectory(prefix="keepstate-bench-") as scratch, room(Path(scratch)) as opened:
        for number in range(options.cycles):
            told = loss(opened)
            if told:
                losses.append(f"cycle {number}: {told}")
                print(losses[-1])
    successes = options.cycles - len(losses)
    low, high = wilson(successes, options.cycles)
    rows = [
        row("machines that survived", "%", [100 * successes / options.cycles]),
        row("Wilson 95 %: lower bound", "%", [100 * low]),
        row("Wilson 95 %: upper bound", "%", [100 * high]),
    ]
    whole = {"cycles": options.cycles, "successes": successes, "wilson_95": [round(low, 4), round(high, 4)], "losses": losses}
    print(f"\n{successes} of {options.cycles} survived: {100 * low:.1f} to {100 * high:.1f} % (Wilson, 95 %)")
    return max(publish("rate", METHOD, rows, options.json, **whole), int(bool(losses)))


def loss(opened: Room) -> str:
    """What went wrong in one cycle, or ''."""
    subject: Subject | None = None
    try:
        subject = opened.start()
        before, nonce = subject.status()
        subject.save()
        subject.kill()
        subject.resume()
        count, after = subject.status()
        return "" if after == nonce and count >= before > 0 else f"({count}, {after!r}) after ({before}, {nonce!r})"
    except (Refused, TimeoutError, AssertionError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if subject is not None:
            try:
                subject.delete()
            except (Refused, TimeoutError) as error:
                print(f"a machine was not deleted: {error}")


if __name__ == "__main__":
    raise SystemExit(main())
