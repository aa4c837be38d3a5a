from django.contrib import admin

from checkpoints_app.models import Pin
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(Pin)
class PinAdmin(ReadOnlyAdmin):
    list_display = ("digest", "architecture", "first_seen_at")
    list_filter = ("architecture",)
    search_fields = ("digest__startswith",)
    ordering = ("-first_seen_at",)
