from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import SessionEvent


@admin.register(SessionEvent)
class SessionEventAdmin(ReadOnlyAdmin):
    list_display = ("session", "number", "type", "epoch", "subject_type", "subject_id", "source", "recorded_at")
    list_display_links = ("number",)
    list_select_related = ("session",)
    list_filter = ("type", "subject_type")
    search_fields = ("=session__id", "=subject_id", "=id")
    ordering = ("-recorded_at", "session", "-number")
