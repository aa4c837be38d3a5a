"""A session as the v2 routes tell it."""

from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sessions_app.api.fields import Known, Moment
from sessions_app.api.operation import operation_words
from sessions_app.models import Session
from sessions_app.services import bounds, steps
from sessions_app.services import operation as operations
from sessions_app.states import SESSION_LIVE, SessionState


class BusyWith(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.CharField()
    progress = serializers.JSONField(allow_null=True)


class SessionRow(serializers.Serializer[Session]):
    """A session. What is not known, or does not apply, is null. Context: `active` and `keys`, by session id."""

    id = serializers.CharField()
    short_id = serializers.CharField()
    record_id = serializers.CharField()
    name = Known()
    project_id = serializers.SerializerMethodField(method_name="absent")
    mode = serializers.SerializerMethodField(help_text="plain: this version has no agents in sessions.")
    runtime_state = serializers.CharField(help_text=f"One of: {', '.join(SessionState)}.")
    image = serializers.CharField(source="image_name")
    parent = Known(source="parent_id")  # type: ignore[assignment]  # a field of that name, not the framework's attribute
    budget_tokens = serializers.IntegerField()
    execution_epoch = serializers.IntegerField(source="epoch")
    revision = serializers.IntegerField()
    created_at = Moment()
    last_activity_at = Moment()
    last_checkpoint_id = Known(source="head_checkpoint_id")
    last_checkpoint_at = Moment(source="head_checkpoint_at", allow_null=True)
    primary_agent_id = serializers.SerializerMethodField(method_name="absent")
    agent_activity = serializers.SerializerMethodField(method_name="absent")
    task_state = serializers.SerializerMethodField(method_name="absent")
    key_alias = serializers.SerializerMethodField(help_text="What its model calls go out with: aliases, or a key's last characters.")
    park_reason = Known()
    verifying = serializers.SerializerMethodField()
    failure = serializers.JSONField(allow_null=True)
    memory_mib = serializers.SerializerMethodField()
    cpus = serializers.IntegerField()
    operation = serializers.SerializerMethodField()
    observed_at = serializers.SerializerMethodField()

    def absent(self, session: Session) -> str | None:
        """Agents, tasks and projects are not of this version."""
        return None

    def get_key_alias(self, session: Session) -> str | None:
        return ", ".join(bound.label for bound in self.context["keys"].get(session.id, [])) or None

    def get_mode(self, session: Session) -> str:
        return "plain"

    def get_verifying(self, session: Session) -> bool:
        """Whether its machine still runs ahead of the verification of what it was resumed from; nothing of it can be saved until then."""
        return session.verifying and session.runtime_state in SESSION_LIVE

    def get_memory_mib(self, session: Session) -> int:
        return session.memory_bytes // bounds.MIB

    @extend_schema_field(BusyWith(allow_null=True))
    def get_operation(self, session: Session) -> dict[str, Any] | None:
        return operation_words(self.context["active"].get(session.id))

    @extend_schema_field(OpenApiTypes.DATETIME)
    def get_observed_at(self, session: Session) -> str:
        return str(self.context["observed_at"])


class RecordRow(SessionRow):
    """The same, named by its record id. Either id is taken wherever a session is named."""

    id = serializers.CharField(source="record_id")
    fleet_session_id = serializers.CharField(source="id")


def context(found: list[Session]) -> dict[str, Any]:
    """What the rows of these sessions need beside them, in two queries."""
    keys = steps.bound_keys.call([session.id for session in found])
    return {"active": operations.active_of(found), "keys": keys, "observed_at": timezone.now().isoformat().replace("+00:00", "Z")}
