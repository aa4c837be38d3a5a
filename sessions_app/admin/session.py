from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from sessions_app.ids import SHORT_ID_LENGTH
from sessions_app.models import Session


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = (
        *("short_id", "name", "account", "runtime_state", "epoch"),
        *("image_name", "memory", "host_id", "parent", "last_activity_at"),
    )
    list_display_links = ("short_id",)
    list_select_related = ("account",)
    list_filter = ("runtime_state", "architecture", "image_name")
    search_fields = ("id__startswith", "name", "=host_id", "=parent_id", "=head_checkpoint_id", "account__name")
    ordering = ("-last_activity_at", "-id")

    @admin.display(description="parent", ordering="parent_id")
    def parent(self, session: Session) -> str:
        """The short id of the session that this one is a fork of; that one may be deleted."""
        return session.parent_id[:SHORT_ID_LENGTH] or "–"

    @admin.display(description="memory", ordering="memory_bytes")
    def memory(self, session: Session) -> str:
        return mebibytes(session.memory_bytes)
