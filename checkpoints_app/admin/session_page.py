"""The store's parts of a session's page: its checkpoints with their sizes, and its lineage."""

from django.contrib.admin.utils import quote
from django.urls import reverse

from checkpoints_app.lineage import picture, tree
from checkpoints_app.models import Checkpoint
from sessions_app.admin.session_page import Part, parts
from sessions_app.drawing import units
from sessions_app.drawing.svg import element, join
from sessions_app.drawing.table import Cell, Look, table
from sessions_app.models import Session
from sessions_app.services import steps

SHOWN = 10
_LOOKS: dict[str, Look] = {"published": "well", "corrupt": "wrong", "failed": "wrong"}
_HEADINGS = ["Checkpoint", "State", "Saved (UTC)", "Logical", "Written", "New content", "Stored", "Pause"]


def sizes(session: Session) -> Part:
    """The newest checkpoints; a figure that is not known is a dash."""
    held = steps.session_stored_bytes.call(session)
    newest = Checkpoint.objects.filter(session=session).order_by("-created_at", "-id")[:SHOWN]
    rows = [
        [
            Cell(one.id, reverse("admin:checkpoints_app_checkpoint_change", args=[quote(one.id)])),
            Cell(one.state, look=_LOOKS.get(one.state, "plain")),
            f"{one.created_at:%Y-%m-%d %H:%M:%S}",
            *(units.known(figure, units.size) for figure in (one.logical_bytes, one.written_bytes, one.unique_bytes, one.stored_bytes)),
            units.known(one.pause_seconds, units.seconds),
        ]
        for one in newest
    ]
    about = "" if held.exact else "About: some of its checkpoints were erased, or it began as a fork. "
    total = element("p", f"{units.size(held.stored_bytes)} stored by its saves. {about}The newest {SHOWN} are shown.", class_="ks-empty")
    return Part("sizes", "Checkpoints and sizes", join((table(_HEADINGS, rows, empty="No checkpoint has been saved yet."), total)))


def lineage(session: Session) -> Part:
    found = tree.of(session)
    drawn = picture.draw(found.nodes, found.lines)
    if found.is_cut:
        more = f"Only the newest {tree.OWN} checkpoints of this session and {tree.OTHERS} of its relatives are shown; there are more."
        drawn = join((drawn, element("p", more, class_="ks-empty")))
    return Part("lineage-picture", "Lineage", drawn)


parts.add(sizes)
parts.add(lineage)
