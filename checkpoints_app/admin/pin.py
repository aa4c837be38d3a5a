from django.contrib import admin
from django.utils.safestring import SafeString

from checkpoints_app.admin.hosts import holders_table, hosts_table
from checkpoints_app.models import Checkpoint, Pin
from checkpoints_app.states import CheckpointState
from sessions_app.admin.readonly import ReadOnlyAdmin

COUNTED = 10_000  # the page of a pin that a million checkpoints need must not count them all


@admin.register(Pin)
class PinAdmin(ReadOnlyAdmin):
    list_display = ("digest", "architecture", "first_seen_at")
    search_fields = ("digest",)
    ordering = ("-first_seen_at",)
    readonly_fields = ("needed_by", "held_by", "hosts_now")

    @admin.display(description="valid checkpoints that need it")
    def needed_by(self, pin: Pin) -> str:
        saved = Checkpoint.objects.filter(pin=pin, state=CheckpointState.PUBLISHED)[:COUNTED].count()
        return f"{saved} or more" if saved == COUNTED else str(saved)

    @admin.display(description="held by")
    def held_by(self, pin: Pin) -> SafeString:
        return holders_table(pin.digest)

    @admin.display(description="hosts with this pin now")
    def hosts_now(self, pin: Pin) -> SafeString:
        return hosts_table(pin.digest)
