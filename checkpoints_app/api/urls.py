"""The routes of saved points, and of what is kept of them."""

from django.urls import URLPattern, path

from checkpoints_app.api.checkpoint import CheckpointListView, CheckpointView
from checkpoints_app.api.retention import AccountPreviewView, AccountRetentionView, SessionPreviewView, SessionRetentionView

_SESSION = "api/v2/sessions/<str:session_id>"

urlpatterns: list[URLPattern] = [
    path(f"{_SESSION}/checkpoints", CheckpointListView.as_view(), name="session-checkpoints"),
    path(f"{_SESSION}/checkpoints/<str:checkpoint_id>", CheckpointView.as_view(), name="session-checkpoint-point"),
    path(f"{_SESSION}/retention", SessionRetentionView.as_view(), name="session-retention"),
    path(f"{_SESSION}/retention/preview", SessionPreviewView.as_view(), name="session-retention-preview"),
    path("api/v2/retention", AccountRetentionView.as_view(), name="retention"),
    path("api/v2/retention/preview", AccountPreviewView.as_view(), name="retention-preview"),
]
