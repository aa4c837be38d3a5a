from django.contrib import admin

from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin
from sessions_app.admin.shown import state_label
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.services import by_operator
from sessions_app.states import DeliveryState


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ReadOnlyAdmin):
    """Where accounts are told of events. The secrets are sealed and never shown."""

    list_display = ("id", "account", "url", "enabled", "disabled_reason", "last_success_at", "created_at")
    list_select_related = ("account",)
    list_filter = ("enabled",)
    search_fields = ("id", "account__name", "account__id")
    ordering = ("account", "id")
    exclude = ("secret", "previous_secret")


def _redeliver(delivery: WebhookDelivery, by: str) -> str:
    by_operator.redeliver(delivery, by)
    return "it is sent again, from its first attempt on."


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    """Messages to webhooks, the newest first."""

    list_display = ("id", "endpoint", "event_type", "how", "attempt", "due_at", "last_status", "last_error", "created_at", "ended_at")
    list_select_related = ("endpoint",)
    list_filter = ("state",)
    search_fields = ("id", "endpoint__id")
    search_help_text = "A message's or webhook's id or how it begins."
    ordering = ("-created_at", "-id")
    exclude = ("body",)
    acts = (Act("redeliver", "Send again", _redeliver, lambda delivery: delivery.state != DeliveryState.PENDING),)
    how = state_label("state")
