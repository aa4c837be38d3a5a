from django.contrib import admin

from checkpoints_app.models import Image
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes


@admin.register(Image)
class ImageAdmin(ReadOnlyAdmin):
    list_display = ("name", "digest", "architecture", "memory", "disk", "registered_at")
    search_fields = ("name", "digest")
    ordering = ("name", "-registered_at")

    @admin.display(description="default memory")
    def memory(self, image: Image) -> str:
        return mebibytes(image.default_memory_bytes)

    @admin.display(description="disk")
    def disk(self, image: Image) -> str:
        return mebibytes(image.disk_bytes)
