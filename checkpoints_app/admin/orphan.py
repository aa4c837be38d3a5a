from django.contrib import admin

from checkpoints_app.models import OrphanObject
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(OrphanObject)
class OrphanObjectAdmin(ReadOnlyAdmin):
    list_display = ("key", "object_bytes", "first_seen_at", "quarantined_at")
    search_fields = ("key",)
    ordering = ("-first_seen_at", "key")
