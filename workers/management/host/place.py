"""`host enrol`, `label`, `offer`, `retire`, `lost`: a host's place in the fleet."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from workers.fleet import lost
from workers.host import enrol
from workers.management.host.talk import MIB, Subcommand, Writes, mib, named, takes_id, who


def _enrol(out: Writes, options: dict[str, Any]) -> None:
    offer = options["offer_mib"]
    host = enrol.enrol(options["id"], who(), labels=_pairs(options["label"] or []), offered_bytes=None if offer is None else offer * MIB)
    out.write(f"{host.id} is enrolled. Nothing runs there yet.")
    out.write(f"Next, on that machine: ./keepstate host --id {host.id}   (docs/operations/fleet.md: what it needs)")


def _label(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    drop = {word[:-1] for word in options["labels"] if word.endswith("-") and "=" not in word}
    put = _pairs([word for word in options["labels"] if not (word.endswith("-") and "=" not in word)])
    labels = enrol.label(host, who(), put=put, drop=drop) if put or drop else host.labels
    out.write(f"{host.id} has the labels: {' '.join(f'{name}={value}' for name, value in sorted(labels.items())) or 'none'}")


def _pairs(words: list[str]) -> dict[str, str]:
    if wrong := [word for word in words if "=" not in word]:
        raise CommandError(f"{wrong[0]!r} is no NAME=VALUE. Nothing was done.")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _offer(out: Writes, options: dict[str, Any]) -> None:
    host, wanted = named(options), options["mib"]
    if wanted != "default" and not (wanted.isascii() and wanted.isdecimal()):
        raise CommandError(f"{wanted!r} is neither a number of MiB nor 'default'. Nothing was done.")
    offered = None if wanted == "default" else int(wanted) * MIB
    enrol.offer(host, who(), offered)
    what = mib(offered) if offered is not None else "what its memory allows"
    out.write(f"{host.id} offers its machines {what}. What runs there runs on; new machines are placed within it.")


def _retire(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    sessions, asked = enrol.holds(host)
    if sessions or asked:
        _explain(out, host.id, sessions, asked)
    enrol.retire(host, who())
    out.write(f"{host.id} is retired: its workers end, its pins count nowhere. What was saved there lies in the store, and is untouched.")
    out.write(f"To take it back: ./keepstate host enrol {host.id}")


def _lost(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    sessions, _ = enrol.holds(host)
    lost.declare(host, who())
    out.write(f"{host.id} is lost: its {sessions} sessions go on elsewhere, each from its last checkpoint, as their owners chose.")
    out.write("What they did since those is lost with it. If it comes back, it ends what it still runs.")
    out.write(f"If it does not: ./keepstate host retire {host.id}")


def _explain(out: Writes, host_id: str, sessions: int, asked: int) -> None:
    out.write(f"{host_id} has {sessions} sessions with a machine there, and {asked} operations.")
    out.write("If it is reachable, move them away first. If it is gone for good, declare it lost: they go on elsewhere from their last")
    out.write("checkpoints, and what they did since is lost with the host.")


def _takes_enrol(parser: ArgumentParser) -> None:
    takes_id(parser)
    parser.add_argument("--label", action="append", metavar="NAME=VALUE")
    parser.add_argument("--offer-mib", type=int, metavar="N", help="memory for its machines together (default: by what it has)")


def _takes_labels(parser: ArgumentParser) -> None:
    takes_id(parser)
    parser.add_argument("labels", nargs="*", metavar="NAME=VALUE|NAME-", help="to put, or with a '-' to drop; none: show them")


def _takes_offer(parser: ArgumentParser) -> None:
    takes_id(parser)
    parser.add_argument("mib", metavar="MIB|default")


SUBCOMMANDS = {
    "enrol": Subcommand("a place for a host whose workers have not started; or a retired one anew", _takes_enrol, _enrol),
    "label": Subcommand("an operator's own words about a host", _takes_labels, _label),
    "offer": Subcommand("how much memory its machines may have together", _takes_offer, _offer),
    "lost": Subcommand("it is gone, and its sessions go on elsewhere from their last checkpoints", takes_id, _lost),
    "retire": Subcommand("it leaves the fleet; refused while it has machines", takes_id, _retire),
}
