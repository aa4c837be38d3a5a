"""The routes of saved points."""

from django.urls import URLPattern, path

from checkpoints_app.api.checkpoint import CheckpointListView

urlpatterns: list[URLPattern] = [
    path("api/v2/sessions/<str:session_id>/checkpoints", CheckpointListView.as_view(), name="session-checkpoints"),
]
