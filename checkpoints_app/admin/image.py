from django.contrib import admin

from checkpoints_app.models import Image
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes


@admin.register(Image)
class ImageAdmin(ReadOnlyAdmin):
    list_display = ("name", "digest", "architecture", "memory", "disk", "registered_at")
    list_filter = ("name", "architecture")
    search_fields = ("name", "digest__startswith")
    ordering = ("name", "-registered_at")

    @admin.display(description="default memory", ordering="default_memory_bytes")
    def memory(self, image: Image) -> str:
        return mebibytes(image.default_memory_bytes)

    @admin.display(description="disk", ordering="disk_bytes")
    def disk(self, image: Image) -> str:
        return mebibytes(image.disk_bytes)
