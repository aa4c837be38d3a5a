"""The dashboard's tables: short, worst first, each row with a way to its page."""

from datetime import datetime, timedelta

from keepstate_site.console_pages.figures import clock, fleet, operations, quotas, sweeps
from keepstate_site.console_pages.figures.span import Span
from keepstate_site.console_pages.panels.links import row
from sessions_app.drawing import units
from sessions_app.drawing.svg import Svg
from sessions_app.drawing.table import Cell, Look, table
from sessions_app.drawing.units import Format
from sessions_app.models import Operation
from sessions_app.services.quota import Quota
from sessions_app.states import OperationState

#: Of a host's state; else doubt.
_LOOKS: dict[str, Look] = {"alive": "well", "enrolled": "plain", **dict.fromkeys(("vm_silent", "deaf", "silent", "lost"), "wrong")}
_FORMS: dict[str, Format] = {Quota.STORED_BYTES: units.size}
_MESSAGE_CHARACTERS = 160


def stuck(_span: Span) -> Svg:
    now = clock.now()
    found = operations.stuck().select_related("session").order_by("accepted_at")[: operations.SHOWN]
    lines = [[*_operation(one), _age(one.accepted_at, now), Cell(_why(one, now), look="wrong")] for one in found]
    return table(["Operation", "Kind", "Session", "Asked", "Why it is stuck"], lines, empty="None: every operation is worked on.")


def failed(_span: Span) -> Svg:
    now = clock.now()
    found = operations.failed(timedelta(hours=24)).select_related("session").order_by("-accepted_at")[: operations.SHOWN]
    lines = [[*_operation(one), _age(one.accepted_at, now), _message(one)] for one in found]
    return table(["Operation", "Kind", "Session", "Asked", "What happened"], lines, empty="None failed.")


def _operation(one: Operation) -> list[Cell]:
    return [
        Cell(one.id, row("sessions_app_operation", one.id)),
        Cell(one.kind),
        Cell(one.session, row("sessions_app_session", one.session_id)),
    ]


def _why(one: Operation, now: datetime) -> str:
    if one.state == OperationState.QUEUED:
        return f"queued, and no worker reads {one.queue}"
    if one.lease_expires_at is not None and one.lease_expires_at < now:
        return f"its worker {one.lease_owner} was lost (attempt {one.attempt} of {one.max_attempts})"
    return f"runs longer than a {one.kind} should, on {one.lease_owner}"


def _message(one: Operation) -> str:
    """Our own words about it; a customer's are not in there."""
    error = one.error or {}
    return f"{error.get('code', one.state)}: {error.get('message', '')}"[:_MESSAGE_CHARACTERS]


def _age(moment: datetime, now: datetime) -> str:
    return f"{units.seconds(max((now - moment).total_seconds(), 0))} ago"


def hosts(_span: Span) -> Svg:
    now = clock.now()
    lines = [
        [
            Cell(host.id, row("workers_host", host.id)),
            Cell(host.state, look=_LOOKS.get(host.state, "doubt")),
            _age(host.heartbeat_at, now),
            units.count(host.machines),
            units.size(host.promised_bytes),
            Cell("none" if host.room_bytes <= 0 else units.size(host.room_bytes), look="doubt" if host.room_bytes <= 0 else "plain"),
        ]
        for host in fleet.hosts()
    ]
    empty = "No host has registered. Start the workers of one: docs/operations/hosts.md."
    return table(["Host", "State", "Heard of", "Machines", "Memory promised", "Room"], lines, empty=empty)


def quotas_panel(_span: Span) -> Svg:
    lines = [
        [
            Cell(one.name, row("sessions_app_account", one.account_id)),
            one.quota.replace("_", " "),
            _FORMS.get(one.quota, units.count)(one.used),
            _FORMS.get(one.quota, units.count)(one.limit),
            Cell(f"{one.share:.0%}", look="wrong" if one.share >= 1 else "doubt"),
        ]
        for one in quotas.near()
    ]
    empty = f"No account has more than {quotas.NEAR:.0%} of the bytes or machines that it may have."
    return table(["Account", "Quota", "Has", "May have", "Share"], lines, empty=empty)


def sweeps_panel(_span: Span) -> Svg:
    lines = [
        [
            Cell(one.name, row("checkpoints_app_sweep", one.name) if one.done is not None else ""),
            Cell(_since(one), look=one.look),
            units.known(one.done, units.count),
            one.error[:_MESSAGE_CHARACTERS] or "–",
        ]
        for one in sweeps.sweeps()
    ]
    return table(["Work", "Last turn", "Done in it", "Error"], lines, empty="Nothing is scheduled.")


def _since(one: sweeps.SweepNow) -> str:
    if one.age_seconds is None:
        return "no turn was seen to end"
    late = {"wrong": ", far too long", "doubt": ", with an error" if one.error else ", late", "well": ""}[one.look]
    return f"{units.seconds(one.age_seconds)} ago{late}"
