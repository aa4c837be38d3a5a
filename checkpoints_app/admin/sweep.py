from collections.abc import Callable, Mapping

from django.contrib import admin

from checkpoints_app.models import Sweep
from checkpoints_app.services import by_operator, orphans, scrub
from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.errors import Conflict

_RUN: Mapping[str, Callable[[str], None]] = {scrub.NAME: by_operator.upkeep, orphans.NAME: by_operator.look_for_orphans}


def _run(sweep: Sweep, by: str) -> str:
    run = _RUN.get(sweep.name)
    if run is None:
        raise Conflict(f"The sweep {sweep.name} runs by its schedule alone. Nothing was done.")
    run(by)
    return "a turn of it was asked for; one that goes on already is not disturbed."


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    list_display = ("name", "started_at", "finished_at", "objects_done", "bytes_done", "bytes_wanted", "error")
    ordering = ("name",)
    acts = (Act("run", "Run now", _run, lambda sweep: sweep.name in _RUN),)
