"""How old the last turn of each of the beat's sweeps is, and whether that is too old."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Expression, ExpressionWrapper, F, FloatField
from django.db.models.functions import Coalesce, Extract, Now

from checkpoints_app.models import Sweep

#: A sweep is late when its last turn is older than so many of its intervals, and a minute.
_TURNS = 3
_SLACK_SECONDS = 60.0


@dataclass(frozen=True)
class SweepAge:
    """`age_seconds` since the last turn ended; None if none has been seen to end. `error` of that turn, empty if it ended well.

    `waited_seconds` since then, or since a turn is expected at all; None where no worker has ever said that it runs turns.
    """

    name: str
    interval_seconds: float
    age_seconds: float | None = None
    waited_seconds: float | None = None
    error: str = ""

    @property
    def late(self) -> bool:
        return self.waited_seconds is None or self.waited_seconds > _TURNS * self.interval_seconds + _SLACK_SECONDS

    @property
    def state(self) -> str:
        return "late" if self.late else "failed" if self.error else "ok"


def ages() -> list[SweepAge]:
    """Of every sweep that the beat's schedule names; one query."""
    rows = Sweep.objects.annotate(age=_since(F("finished_at")), waited=_since(Coalesce("finished_at", "registered_at")))
    known = {name: told for name, *told in rows.values_list("name", "age", "waited", "error")}
    schedule: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
    return [SweepAge(name, float(entry["schedule"]), *known.get(name, ())) for name, entry in sorted(schedule.items())]


def _since(moment: Expression | F) -> "ExpressionWrapper[Extract]":
    return ExpressionWrapper(Extract(Now() - moment, "epoch"), output_field=FloatField())
