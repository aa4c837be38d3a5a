from django.contrib import admin

from checkpoints_app.models import Manifest
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes


@admin.register(Manifest)
class ManifestAdmin(ReadOnlyAdmin):
    list_display = ("id", "account", "state", "stored", "created_at", "verified_at")
    list_select_related = ("account",)
    list_filter = ("state",)
    search_fields = ("id__startswith", "account__name")
    ordering = ("-created_at", "-id")

    @admin.display(description="stored", ordering="stored_bytes")
    def stored(self, manifest: Manifest) -> str:
        return mebibytes(manifest.stored_bytes)
