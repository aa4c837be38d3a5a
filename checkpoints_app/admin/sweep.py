from django.contrib import admin

from checkpoints_app.models import Sweep
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    list_display = ("name", "started_at", "finished_at", "objects_done", "bytes_done", "bytes_wanted", "error")
    ordering = ("name",)
