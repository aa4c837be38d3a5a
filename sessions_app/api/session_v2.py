"""The v2 session routes: list, read, pause, resume."""

from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Known, Text
from sessions_app.api.idempotency import MutationView
from sessions_app.api.operation import OperationRow, operation_words
from sessions_app.api.schema import MUTATION, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.api.session import REFUSALS
from sessions_app.api.view import ApiView
from sessions_app.errors import Invalid
from sessions_app.models import Operation, Session
from sessions_app.services import bounds, session_list
from sessions_app.services import operation as operations
from sessions_app.services import session as sessions
from sessions_app.services.operation import Asked
from sessions_app.states import SessionState

FLEET = "fleet"
#: The published client's word for a session that is gone.
_DEAD = "dead"


class BusyWith(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.CharField()
    progress = serializers.JSONField(allow_null=True)


class SessionRow(serializers.Serializer[Session]):
    """A session. What is not known, or does not apply, is null. Context: `active`, the operation of each busy session by session id."""

    id = serializers.CharField()
    short_id = serializers.CharField()
    record_id = serializers.CharField()
    name = Known()
    runtime_state = serializers.CharField(help_text=f"One of: {', '.join(SessionState)}.")
    image = serializers.CharField(source="image_name")
    parent = Known(source="parent_id")
    budget_tokens = serializers.IntegerField()
    execution_epoch = serializers.IntegerField(source="epoch")
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    last_activity_at = serializers.DateTimeField()
    last_checkpoint_id = Known(source="head_checkpoint_id")
    last_checkpoint_at = serializers.DateTimeField(source="head_checkpoint_at", allow_null=True)
    primary_agent_id = serializers.SerializerMethodField(method_name="absent")
    agent_activity = serializers.SerializerMethodField(method_name="absent")
    task_state = serializers.SerializerMethodField(method_name="absent")
    key_alias = serializers.SerializerMethodField(method_name="absent")
    park_reason = Known()
    failure = serializers.JSONField(allow_null=True)
    memory_mib = serializers.SerializerMethodField()
    cpus = serializers.IntegerField()
    operation = serializers.SerializerMethodField()
    observed_at = serializers.SerializerMethodField()

    def absent(self, session: Session) -> str | None:
        """Agents, tasks and keys are not of this version."""
        return None

    def get_memory_mib(self, session: Session) -> int:
        return session.memory_bytes // bounds.MIB

    @extend_schema_field_busy
    def get_operation(self, session: Session) -> dict[str, Any] | None:
        return operation_words(self.context["active"].get(session.id))

    def get_observed_at(self, session: Session) -> str:
        return str(self.context["observed_at"])


def _context(found: list[Session]) -> dict[str, Any]:
    return {"active": operations.active_of(found), "observed_at": timezone.now().isoformat().replace("+00:00", "Z")}
