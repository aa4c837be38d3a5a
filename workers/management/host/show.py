"""`host list`, `host show [ID]`: the fleet's hosts; one of them with its pins, its machines and what waits."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from sessions_app.models import Operation
from sessions_app.states import OperationState
from workers.cache.files import DEVICES, DISK, MEMORY
from workers.fleet.moves import Staying, staying
from workers.fleet.overview import HostRow, asked_of, rows
from workers.host import targets
from workers.host.drivers import driver
from workers.host.identity import cache_directory, host_id, machines_directory
from workers.host.state import HostState
from workers.management.host.talk import MIB, Subcommand, Writes, mib, named, takes_json, tell
from workers.models import Host


def _list(out: Writes, options: dict[str, Any]) -> None:
    found = [row for row in rows() if options["all"] or row.state is not HostState.RETIRED]
    found = [row for row in found if _has(row, options["label"])]
    waiting = Operation.objects.filter(state=OperationState.QUEUED).exclude(waits_for="").count()
    if options["json"]:
        tell(out, {"hosts": [row.as_dict() for row in found], "operations_waiting_for_a_host": waiting})
        return
    out.write(f"{'host':20} {'state':9} {'machines':>8} {'room':>12} {'of':>12} {'asked':>6} heard of (UTC)      labels")
    for row in found:
        labels = " ".join(f"{name}={value}" for name, value in sorted(row.labels.items()))
        sizes = f"{mib(row.room_bytes):>12} {mib(row.offered_bytes):>12}"
        out.write(f"{row.host.id:20} {row.state:9} {row.machines:>8} {sizes} {row.asked:>6} {_at(row.heard_of):19} {labels}".rstrip())
    for row in found:
        if row.state is HostState.VM_SILENT:
            out.write(f"{row.host.id}: {row.says}")
    out.write(f"{len(found)} hosts; {waiting} operations wait for one that can take them")


def _has(row: HostRow, wanted: list[str] | None) -> bool:
    return all(row.labels.get(name) == value for name, _, value in (label.partition("=") for label in wanted or []))


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else "never"


def _show(out: Writes, options: dict[str, Any]) -> None:
    host = named(options)
    (row,) = rows(Host.objects.filter(id=host.id))
    stays = staying(host) if host.draining else []
    if options["json"]:
        pins = list(host.pins.values_list("digest", flat=True))
        told = [{"session_id": one.session.id, "why": one.why or "it is its turn"} for one in stays]
        tell(out, {**row.as_dict(), "pins": pins, "asked_operations": [one.id for one in asked_of(host)], "staying": told})
        return
    _show_row(out, row)
    for pin in host.pins.all():
        facts = " ".join(f"{name}={value[:24]}" for name, value in sorted(pin.facts.items()))
        out.write(f"pin       {pin.digest[:16]} {facts}")
    for one in asked_of(host):
        out.write(f"asked     {one.kind} {one.id} of session {one.session_id[:12]}: {one.state} since {_at(one.accepted_at)}")
    _show_staying(out, stays)
    if host.id == host_id():
        _show_machines(out)
        show_cache(out)


def _show_row(out: Writes, row: HostRow) -> None:
    out.write(f"host      {row.host.id}: {row.state}: {row.says}")
    out.write(f"heard of  {_at(row.heard_of)} UTC; read a doorbell {_at(row.observed_at)} UTC")
    out.write(f"room      {mib(row.room_bytes)} of {mib(row.offered_bytes)} for machines; {row.machines} machines, {row.asked} operations")
    out.write(f"labels    {' '.join(f'{name}={value}' for name, value in sorted(row.labels.items())) or 'none'}")
    if row.heard_of is not None:
        network = "each machine has one" if row.host.network else "machines have none here; ./keepstate doctor says why"
        out.write(f"network   {network}")


def _show_staying(out: Writes, stays: list[Staying]) -> None:
    could = targets.of(one.session for one in stays)
    for one in stays:
        able = ", ".join(could[one.session.id].able) or "none"
        out.write(f"session   {one.session.short_id} runs here: {one.why or 'it is its turn'} (hosts that could take it now: {able})")


def _show_machines(out: Writes) -> None:
    directories = sorted(machines_directory().glob("*.*")) if machines_directory().exists() else []
    for runtime in directories:
        machine = driver().attach(runtime)
        status = machine.inspect() if machine else None
        out.write(f"machine   {runtime.name} " + (f"{status.state} pid {status.pid}" if status else "no process"))
    if not directories:
        out.write("machine   none")


def show_cache(out: Writes) -> None:
    for kind in (MEMORY, DISK, DEVICES):
        directory = cache_directory() / kind
        images = sorted(directory.glob("*.sum")) if directory.exists() else []
        held = sum(image.with_suffix("").stat().st_blocks * 512 for image in images)
        out.write(f"cache     {kind:8} {len(images)} images, {held / MIB:.1f} MiB")


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--label", action="append", metavar="NAME=VALUE", help="hosts with this label alone")
    parser.add_argument("--all", action="store_true", help="retired ones too")
    takes_json(parser)


def _show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="the host's id (this host, if none is named)")
    takes_json(parser)


SUBCOMMANDS = {
    "list": Subcommand("the fleet's hosts, with their state and room", _list_arguments, _list),
    "show": Subcommand("one host: pins, machines, what is asked of it, why sessions stay", _show_arguments, _show),
}
