from django.contrib import admin

from checkpoints_app.models import ErasureReceipt
from checkpoints_app.services import receipt as receipts
from sessions_app.admin.readonly import ReadOnlyAdmin


@admin.register(ErasureReceipt)
class ErasureReceiptAdmin(ReadOnlyAdmin):
    list_display = ("id", "account_id", "object_count", "stored_bytes", "checkpoint_count", "finished_at", "genuine")
    search_fields = ("=id", "=account_id")
    ordering = ("-started_at", "-id")

    @admin.display(boolean=True)
    def genuine(self, receipt: ErasureReceipt) -> bool:
        """Signed by this service over exactly what is shown."""
        return receipts.is_genuine(receipt)
