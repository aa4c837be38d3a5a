"""The routes of provider keys, and of what sessions use them for."""

from django.urls import URLPattern, path

from gateway_app.api.binding import BindingsView
from gateway_app.api.budget import AccountBudgetView, SessionBudgetView
from gateway_app.api.call import CallListView
from gateway_app.api.egress import EgressView
from gateway_app.api.provider_key import KeyDeletionPlanView, KeyListView, KeyView
from gateway_app.api.steer import SteerListView

_SESSION = "api/v2/sessions/<str:session_id>"

urlpatterns: list[URLPattern] = [
    path("api/v2/keys", KeyListView.as_view(), name="keys"),
    path("api/v2/keys/<str:key_id>", KeyView.as_view(), name="key"),
    path("api/v2/keys/<str:key_id>/deletion-plan", KeyDeletionPlanView.as_view(), name="key-deletion-plan"),
    path("api/v2/account/budget", AccountBudgetView.as_view(), name="account-budget"),
    path(f"{_SESSION}/bindings", BindingsView.as_view(), name="session-bindings"),
    path(f"{_SESSION}/budget", SessionBudgetView.as_view(), name="session-budget"),
    path(f"{_SESSION}/calls", CallListView.as_view(), name="session-calls"),
    path(f"{_SESSION}/steers", SteerListView.as_view(), name="session-steers"),
    path(f"{_SESSION}/egress", EgressView.as_view(), name="session-egress"),
]
