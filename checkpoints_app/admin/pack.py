from django.contrib import admin

from checkpoints_app.models import Pack
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from sessions_app.admin.shown import state_label


@admin.register(Pack)
class PackAdmin(ReadOnlyAdmin):
    list_display = ("id", "account", "how", "generation", "stored", "unit_count", "created_at", "verified_at")
    list_select_related = ("account",)
    list_filter = ("state",)
    search_fields = ("id", "account__name")
    ordering = ("-created_at", "-id")
    how = state_label("state")

    @admin.display(description="stored")
    def stored(self, pack: Pack) -> str:
        return mebibytes(pack.stored_bytes)
