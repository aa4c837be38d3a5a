from django.contrib import admin
from django.utils.safestring import SafeString

from checkpoints_app.admin.hosts import hosts_table
from checkpoints_app.models import Checkpoint
from checkpoints_app.services import by_operator, naming
from checkpoints_app.states import CheckpointState
from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from sessions_app.admin.shown import state_label


def _scrub(checkpoint: Checkpoint, by: str) -> str:
    return f"its {by_operator.scrub(checkpoint, by)} objects are read again in the store's next turn, within a minute or a few."


def _hold(checkpoint: Checkpoint, by: str) -> str:
    naming.hold(checkpoint, reason=by_operator.REASON, by=by)
    return "held: no retention policy touches it. Its owner may delete it all the same."


def _release(checkpoint: Checkpoint, by: str) -> str:
    naming.release(checkpoint, by=by)
    return "released: retention policies count it again."


def _is_kept(checkpoint: Checkpoint) -> bool:
    return checkpoint.state in (CheckpointState.PUBLISHED, CheckpointState.CORRUPT)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "name",
        "session",
        "how",
        "held_at",
        "boundary",
        "source_epoch",
        "pause_seconds",
        "written",
        "stored",
        "created_at",
    )
    list_select_related = ("session",)
    list_filter = ("state",)
    search_fields = ("id", "session__id", "=content_digest")
    search_help_text = "A checkpoint's or session's id or how it begins; a whole content digest."
    ordering = ("-created_at", "-id")
    readonly_fields = ("hosts",)
    acts = (
        Act("hold", "Hold", _hold, lambda checkpoint: _is_kept(checkpoint) and checkpoint.held_at is None),
        Act("release", "Release", _release, lambda checkpoint: checkpoint.held_at is not None),
        Act("scrub", "Verify what it is stored in", _scrub, _is_kept),
    )
    how = state_label("state")

    @admin.display(description="hosts that can resume it now")
    def hosts(self, checkpoint: Checkpoint) -> SafeString:
        return hosts_table(checkpoint.pin_id)

    @admin.display(description="written")
    def written(self, checkpoint: Checkpoint) -> str:
        return mebibytes(checkpoint.written_bytes)

    @admin.display(description="stored")
    def stored(self, checkpoint: Checkpoint) -> str:
        return mebibytes(checkpoint.stored_bytes)
