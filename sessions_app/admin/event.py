from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import SessionEvent


@admin.register(SessionEvent)
class SessionEventAdmin(ReadOnlyAdmin):
    """One session's history at a time: its page leads here. Over all sessions there is no order of time that an index keeps."""

    list_display = ("number", "session", "type", "epoch", "subject_type", "subject_id", "source", "recorded_at")
    list_display_links = ("number",)
    list_select_related = ("session",)
    search_fields = ("session__id", "=id")
    search_help_text = "A session's id or how it begins; an event's id."
    ordering = ("session", "-number")
