from django.contrib import admin
from django.utils.safestring import SafeString

from checkpoints_app.admin.hosts import hosts_table
from checkpoints_app.models import Pin
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(Pin)
class PinAdmin(ReadOnlyAdmin):
    list_display = ("digest", "architecture", "first_seen_at")
    search_fields = ("digest",)
    ordering = ("-first_seen_at",)
    readonly_fields = ("hosts_now",)

    @admin.display(description="hosts with this pin now")
    def hosts_now(self, pin: Pin) -> SafeString:
        return hosts_table(pin.digest)
