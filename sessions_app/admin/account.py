from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import Account


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    list_display = ("name", "id", "created_at")
    search_fields = ("name", "id")
    ordering = ("name",)
