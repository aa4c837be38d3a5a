from django.contrib import admin

from checkpoints_app.models import Manifest
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from sessions_app.admin.shown import state_label


@admin.register(Manifest)
class ManifestAdmin(ReadOnlyAdmin):
    list_display = ("id", "account", "how", "stored", "created_at", "verified_at")
    list_select_related = ("account",)
    list_filter = ("state",)
    search_fields = ("id", "account__name")
    ordering = ("-created_at", "-id")
    how = state_label("state")

    @admin.display(description="stored")
    def stored(self, manifest: Manifest) -> str:
        return mebibytes(manifest.stored_bytes)
