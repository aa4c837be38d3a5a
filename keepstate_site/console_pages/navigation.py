"""The sidebar, by task. What is not registered is left out, and what nobody placed stands under "More"."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse

#: Task, then (title, icon, app.Model).
TASKS: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "Work",
        [
            ("Sessions", "deployed_code", "sessions_app.Session"),
            ("Operations", "conversion_path", "sessions_app.Operation"),
            ("Checkpoints", "bookmark", "checkpoints_app.Checkpoint"),
        ],
    ),
    (
        "Fleet",
        [
            ("Hosts", "dns", "workers.Host"),
            ("Pins", "push_pin", "checkpoints_app.Pin"),
            ("Images", "album", "checkpoints_app.Image"),
        ],
    ),
    (
        "Store",
        [
            ("Packs", "package_2", "checkpoints_app.Pack"),
            ("Manifests", "list_alt", "checkpoints_app.Manifest"),
            ("Orphans", "help_center", "checkpoints_app.OrphanObject"),
            ("Sweeps", "mop", "checkpoints_app.Sweep"),
        ],
    ),
    (
        "Model calls",
        [
            ("Calls", "forum", "gateway_app.Call"),
            ("Ledger", "receipt", "gateway_app.UsageEntry"),
            ("Provider keys", "vpn_key", "gateway_app.ProviderKey"),
            ("Budgets of sessions", "savings", "gateway_app.SessionBudget"),
            ("Budgets of accounts", "account_balance", "gateway_app.AccountBudget"),
        ],
    ),
    (
        "Accounts",
        [
            ("Accounts", "domain", "sessions_app.Account"),
            ("Members", "group", "sessions_app.Membership"),
            ("API tokens", "key", "sessions_app.ApiToken"),
            ("Sign-ins by device", "devices", "sessions_app.DeviceGrant"),
            ("Quotas", "speed", "sessions_app.AccountQuota"),
            ("Retention", "auto_delete", "sessions_app.RetentionPolicy"),
            ("Webhooks", "webhook", "sessions_app.WebhookEndpoint"),
            ("Deliveries", "outbox", "sessions_app.WebhookDelivery"),
        ],
    ),
    (
        "Records",
        [
            ("Service record", "receipt_long", "sessions_app.ServiceRecord"),
            ("Deletions", "delete_forever", "sessions_app.AccountDeletion"),
            ("Erasure receipts", "verified", "checkpoints_app.ErasureReceipt"),
        ],
    ),
    ("This console", [("Operators", "badge", "auth.User"), ("Groups", "shield_person", "auth.Group")]),
]
#: Reached from a session's page, never read as a list of everything.
WITH_A_SESSION = frozenset(
    {"sessions_app.SessionEvent", "sessions_app.SavePolicy", "sessions_app.IdlePolicy", "sessions_app.RecoveryPolicy"}
)


def groups(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's form of the sidebar; an item appears for who may see its rows."""
    dashboard = {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")}
    placed = {label for _, items in TASKS for _, _, label in items} | WITH_A_SESSION
    rest = sorted(model._meta.label for model in admin.site._registry if model._meta.label not in placed)
    more = [(str(apps.get_model(label)._meta.verbose_name_plural).capitalize(), "more_horiz", label) for label in rest]
    return [{"items": [dashboard]}, *(_group(request, title, items) for title, items in [*TASKS, ("More", more)])]


def _group(request: HttpRequest, title: str, items: list[tuple[str, str, str]]) -> dict[str, Any]:
    models = [(name, icon, model) for name, icon, label in items if (model := _registered(label)) is not None]
    return {"title": title, "separator": True, "items": [_item(request, *one) for one in models]}


def _registered(label: str) -> type[Model] | None:
    app, _, name = label.partition(".")
    model = apps.all_models.get(app, {}).get(name.lower())
    return model if model in admin.site._registry else None


def _item(request: HttpRequest, title: str, icon: str, model: type[Model]) -> dict[str, Any]:
    link = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    may_see = admin.site._registry[model].has_view_permission(request)
    return {
        "title": title,
        "icon": icon,
        "link": link,
        "active": request.path.startswith(link),
        "permission": lambda _request: may_see,
    }
