from django.contrib import admin

from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.models import IdlePolicy, RecoveryPolicy, SavePolicy


@admin.register(SavePolicy)
class SavePolicyAdmin(ReadOnlyAdmin):
    list_display = ("session", "enabled", "interval_minutes", "due_at", "pending_since", "last_attempt_at", "last_operation_id")
    list_select_related = ("session",)
    list_filter = ("enabled",)
    search_fields = ("session__id",)
    ordering = ("session",)


@admin.register(IdlePolicy)
class IdlePolicyAdmin(ReadOnlyAdmin):
    list_display = ("session", "enabled", "idle_minutes", "active_at", "warned_at", "look_at", "deferred_reason")
    list_select_related = ("session",)
    list_filter = ("enabled",)
    search_fields = ("session__id",)
    ordering = ("session",)


@admin.register(RecoveryPolicy)
class RecoveryPolicyAdmin(ReadOnlyAdmin):
    list_display = ("session", "on_host_loss", "on_machine_loss")
    list_select_related = ("session",)
    list_filter = ("on_host_loss", "on_machine_loss")
    search_fields = ("session__id",)
    ordering = ("session",)
