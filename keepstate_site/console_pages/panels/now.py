"""What an operator must see in five seconds."""

from datetime import timedelta

from keepstate_site.console_pages.figures import fleet, operations, store, sweeps
from keepstate_site.console_pages.figures.fleet import HostNow
from keepstate_site.console_pages.figures.span import Span
from keepstate_site.console_pages.figures.sweeps import SweepNow
from keepstate_site.console_pages.panels.links import rows
from sessions_app.drawing import units
from sessions_app.drawing.svg import Svg
from sessions_app.drawing.table import Look, Tile, tiles
from sessions_app.states import SESSION_LIVE, SessionState

_DAY = timedelta(hours=24)


def draw(_span: Span) -> Svg:
    states = fleet.by_state()
    return tiles(
        [
            _machines(states),
            _stuck(operations.bounded(operations.stuck())),
            _failed(operations.bounded(operations.failed(_DAY))),
            _need_care(states),
            _hosts(fleet.hosts()),
            _corrupt(store.corrupt(), late=store.verification_is_late()),
            _sweeps(sweeps.sweeps()),
        ]
    )


def _machines(states: dict[str, int]) -> Tile:
    live = sum(states.get(state, 0) for state in SESSION_LIVE)
    starting = states.get(SessionState.PROVISIONING, 0) + states.get(SessionState.RESUMING, 0)
    return Tile("Running machines", units.count(live), f"{units.count(starting)} starting", link=rows("sessions_app_session"))


def _up_to(number: int, most: int) -> str:
    return units.count(number) if number < most else f"{units.count(most)} or more"


def _stuck(number: int) -> Tile:
    look: Look = "wrong" if number else "well"
    return Tile("Stuck operations", _up_to(number, operations.MOST), "nobody works on them" if number else "none", look, "#stuck")


def _failed(number: int) -> Tile:
    link = rows("sessions_app_operation", state__exact="failed")
    return Tile("Failed operations", _up_to(number, operations.MOST), "in 24 hours", "doubt" if number else "well", link)


def _need_care(states: dict[str, int]) -> Tile:
    failed, recovery = states.get(SessionState.FAILED, 0), states.get(SessionState.RECOVERY_REQUIRED, 0)
    link = rows("sessions_app_session", runtime_state__exact="recovery_required" if recovery else "failed")
    look: Look = "wrong" if recovery else "doubt" if failed else "well"
    return Tile("Sessions that failed", units.count(failed + recovery), f"{units.count(recovery)} need recovery", look, link)


def _hosts(hosts: list[HostNow]) -> Tile:
    alive = sum(host.state == "alive" for host in hosts)
    silent = sum(host.state in ("silent", "vm_silent") for host in hosts)
    look: Look = "wrong" if not alive else "doubt" if silent else "well"
    note = f"{silent} silent" if silent else "none silent" if hosts else "no host has registered"
    return Tile("Hosts that take work", f"{alive} of {len(hosts)}", note, look, rows("workers_host"))


def _corrupt(number: int, *, late: bool) -> Tile:
    note = "verification is late" if late else "all that was read is whole" if not number else "they are refused"
    look: Look = "wrong" if number else "doubt" if late else "well"
    link = rows("checkpoints_app_checkpoint", state__exact="corrupt")
    return Tile("Corrupt checkpoints", _up_to(number, store.MOST), note, look, link)


def _sweeps(found: list[SweepNow]) -> Tile:
    late = [one for one in found if one.look != "well"]
    look: Look = "wrong" if any(one.look == "wrong" for one in late) else "doubt" if late else "well"
    note = ", ".join(one.name for one in late[:3]) if late else "all in time"
    return Tile("Recurring work late", units.count(len(late)), note, look, "#sweeps")
