from django.contrib import admin

from checkpoints_app.models import Pack
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes


@admin.register(Pack)
class PackAdmin(ReadOnlyAdmin):
    list_display = ("id", "account", "state", "generation", "stored", "unit_count", "created_at", "verified_at")
    list_select_related = ("account",)
    list_filter = ("state",)
    search_fields = ("id__startswith", "account__name")
    ordering = ("-created_at", "-id")

    @admin.display(description="stored", ordering="stored_bytes")
    def stored(self, pack: Pack) -> str:
        return mebibytes(pack.stored_bytes)
