"""What a host's page shows above its fields: how it is, the sessions there, and what is asked of it."""

from sessions_app.admin.session_page import Part, page
from sessions_app.drawing.table import Cell, Tile, table, tiles
from sessions_app.models import Session
from sessions_app.states import SessionState
from workers.fleet.moves import staying
from workers.fleet.overview import SHOWN, asked_of, rows
from workers.host import targets
from workers.host.state import HEARD, HostState
from workers.models import Host, HostRelay
from workers.relay.trust import shared_key

MIB = 1 << 20


def of(host: Host) -> list[Part]:
    return [_now(host), _sessions(host), _asked(host)]


def _now(host: Host) -> Part:
    (row,) = rows(Host.objects.filter(id=host.id))
    well = (HEARD | {HostState.ENROLLED, HostState.RESTING, HostState.RETIRED}) - {HostState.VM_SILENT, HostState.DEAF}
    shown = [
        Tile("State", row.state.value, row.says, "plain" if row.state in well else "wrong"),
        Tile("Room for machines", f"{row.room_bytes // MIB} MiB", f"of {row.offered_bytes // MIB} MiB that it offers"),
        Tile("Machines", str(row.machines)),
        Tile("Asked of it", str(row.asked), "operations that have not ended"),
        _relay(host),
    ]
    return Part("overview", "Now", tiles(shown))


def _relay(host: Host) -> Tile:
    """Its consoles and files, as this web process would find them from another computer."""
    relay = HostRelay.objects.filter(host=host.id).first()
    if relay is None:
        return Tile("Relay", "none", "consoles and files for web processes of this computer alone")
    if shared_key(relay) is None:
        return Tile("Relay", "another master key", "it answers nothing to this web process: compare KEEPSTATE_MASTER_KEY of both", "wrong")
    return Tile("Relay", f"{relay.address}:{relay.port}", "consoles and files for other computers")


def _sessions(host: Host) -> Part:
    """Of a host that moves its machines, why each is still there; of a running one, which hosts could take it."""
    there = list(Session.objects.filter(host_id=host.id).exclude(runtime_state=SessionState.DELETED).order_by("-last_activity_at")[:SHOWN])
    could = targets.of(there)
    why = {one.session.id: one.why or "it is its turn" for one in staying(host)} if host.moving else {}
    lines = [
        [
            Cell(session.name or session.short_id, page("sessions_app_session", session.id)),
            session.runtime_state,
            f"{session.memory_bytes // MIB} MiB",
            ", ".join(could[session.id].able) or could[session.id].why_none(),
            why.get(session.id, ""),
        ]
        for session in there
    ]
    columns = ["Session", "State", "Memory", "Hosts that could take it now", "Why it is still here"]
    return Part("sessions", "Sessions here", table(columns, lines, empty="No session has a machine here."))


def _asked(host: Host) -> Part:
    lines = [
        [
            Cell(one.id, page("sessions_app_operation", one.id)),
            one.kind,
            one.state,
            Cell(one.session_id[:12], page("sessions_app_session", one.session_id)),
            f"{one.accepted_at:%Y-%m-%d %H:%M:%S}",
        ]
        for one in asked_of(host)
    ]
    columns = ["Operation", "Kind", "State", "Session", "Asked (UTC)"]
    return Part("asked", "Asked of this host", table(columns, lines, empty="Nothing waits for it."))
