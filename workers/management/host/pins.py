"""`host pins`: which hosts hold each pin, and how much saved work needs it."""

from typing import Any

from workers.fleet.pins import held
from workers.management.host.talk import Subcommand, Writes, takes_json, tell


def _pins(out: Writes, options: dict[str, Any]) -> None:
    found = held()
    if options["json"]:
        tell(out, [one.as_dict() for one in found])
        return
    for one in found:
        out.write(f"pin       {one.digest} {one.architecture}: {one.checkpoints} checkpoints of {one.sessions} sessions need it")
        for host, state in sorted(one.hosts.items()):
            out.write(f"  host    {host}: {state}")
        for host, at in sorted(one.former.items()):
            out.write(f"  before  {host}: until {at:%Y-%m-%d %H:%M} UTC")
        if one.checkpoints and not one.is_held:
            out.write("  !       no host that is heard of holds it: what was saved under it resumes nowhere now")
    if not found:
        out.write("no pin is known; the workers of no host have started on this database")


SUBCOMMANDS = {"pins": Subcommand("each pin: the hosts that hold it, the saved work that needs it", takes_json, _pins)}
