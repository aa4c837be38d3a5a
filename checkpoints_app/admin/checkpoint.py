from django.contrib import admin
from django.utils.safestring import SafeString

from checkpoints_app.admin.hosts import hosts_table
from checkpoints_app.models import Checkpoint
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    list_display = ("id", "session", "state", "boundary", "source_epoch", "pause_seconds", "written", "stored", "created_at")
    list_select_related = ("session",)
    list_filter = ("state", "boundary")
    search_fields = ("=id", "session__id__startswith", "=operation_id", "=content_digest", "=manifest_id")
    ordering = ("-created_at", "-id")
    readonly_fields = ("hosts",)

    @admin.display(description="hosts that can resume it now")
    def hosts(self, checkpoint: Checkpoint) -> SafeString:
        return hosts_table(checkpoint.pin_id)

    @admin.display(description="written", ordering="written_bytes")
    def written(self, checkpoint: Checkpoint) -> str:
        return mebibytes(checkpoint.written_bytes)

    @admin.display(description="stored", ordering="stored_bytes")
    def stored(self, checkpoint: Checkpoint) -> str:
        return mebibytes(checkpoint.stored_bytes)
