"""What a session's owner asks to be done by itself: automatic saves, and parking when idle."""

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, idempotency
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Flag, Known, Whole
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.api.view import ApiView
from sessions_app.services import bounds, idle_policy, save_policy
from sessions_app.services import session as sessions
from sessions_app.services.idle_policy import Idleness
from sessions_app.services.save_policy import SaveSchedule

_READ = errors(401, 403, 404, 409, 426)
_WRITE = errors(400, 401, 403, 404, 409, 413, 415, 426)
_REVISION = "The session's revision as it was read; another one refuses the change."
CERTIFICATION = "whole_machine: memory, disk and devices are captured in one stopped window, whatever runs in the guest."
STORAGE = "Each automatic save is a checkpoint of its own that stores what is new since the last one. Nothing is erased by it."
IDLE_NOTE = (
    "An idle session is warned, then saved and parked; never killed. A command, an open console, a file transfer or a model call is use. "
    "While an operation has the session, parking waits."
)


def _seconds(allowed: range, default: int) -> str:
    return f"{allowed.start} to {allowed.stop - 1}; absent: as it is, at first {default}."


class SavePolicyChange(Body):
    enabled = Flag()
    expected_revision = Whole(help_text=_REVISION)
    interval_minutes = Whole(required=False, help_text=_seconds(bounds.SAVE_MINUTES, bounds.DEFAULT_SAVE_MINUTES))


class IdlePolicyChange(Body):
    enabled = Flag()
    expected_revision = Whole(help_text=_REVISION)
    idle_minutes = Whole(required=False, help_text=_seconds(bounds.IDLE_MINUTES, bounds.DEFAULT_IDLE_MINUTES))
    warning_seconds = Whole(required=False, help_text=_seconds(bounds.WARNING_SECONDS, bounds.DEFAULT_WARNING_SECONDS))


class SavePolicyRow(serializers.Serializer[SaveSchedule]):
    """Automatic saves of a session as they are now."""

    enabled = serializers.BooleanField(source="policy.enabled")
    interval_minutes = serializers.IntegerField(source="policy.interval_minutes")
    state = serializers.CharField(help_text="off, idle (the machine does not run), scheduled, or pending (due, and waiting).")
    next_at = serializers.DateTimeField(source="policy.due_at", allow_null=True)
    pending_since = serializers.DateTimeField(source="policy.pending_since", allow_null=True)
    deferred_reason = Known(source="policy.deferred_reason")
    last_attempt_at = serializers.DateTimeField(source="policy.last_attempt_at", allow_null=True)
    last_operation_id = Known(source="policy.last_operation_id")
    certification = serializers.SerializerMethodField()
    storage_effect = serializers.SerializerMethodField()
    session_revision = serializers.IntegerField()

    def get_certification(self, _: SaveSchedule) -> str:
        return CERTIFICATION

    def get_storage_effect(self, _: SaveSchedule) -> str:
        return STORAGE


class IdlePolicyRow(serializers.Serializer[Idleness]):
    """Whether and when an idle session is parked. Times that do not apply are null."""

    enabled = serializers.BooleanField(source="policy.enabled")
    idle_minutes = serializers.IntegerField(source="policy.idle_minutes")
    warning_seconds = serializers.IntegerField(source="policy.warning_seconds")
    state = serializers.CharField(help_text="off, not_running, counting, warned, or deferred (it should be parked, and waits).")
    idle_since = serializers.DateTimeField(allow_null=True)
    warned_at = serializers.DateTimeField(allow_null=True)
    park_at = serializers.DateTimeField(allow_null=True)
    deferred_reason = Known(source="policy.deferred_reason")
    note = serializers.SerializerMethodField()
    session_revision = serializers.IntegerField()

    def get_note(self, _: Idleness) -> str:
        return IDLE_NOTE


class SavePolicyView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_checkpoint_policy",
        tags=["sessions"],
        summary="Read a session's automatic saves",
        responses={200: enveloped(SavePolicyRow), **_READ},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(SavePolicyRow(save_policy.read(sessions.find(self.account, session_id))).data)

    @extend_schema(
        operation_id="session_checkpoint_policy_change",
        tags=["sessions"],
        summary="Switch a session's automatic saves on or off",
        description="Saves and erases nothing. A request that asks for what is so already changes nothing, so it may be repeated.",
        parameters=[KEY, PROTOCOL],
        request=SavePolicyChange,
        responses={200: enveloped(SavePolicyRow), **_WRITE},
        examples=[OpenApiExample("on", value={"enabled": True, "interval_minutes": 15, "expected_revision": 4}, request_only=True)],
    )
    def put(self, request: Request, session_id: str) -> Response:
        idempotency.key(request)
        wanted = body.checked(SavePolicyChange, body.read(request))
        session = sessions.find(self.account, session_id)
        changed = save_policy.change(session, **{"interval_minutes": None, **wanted})
        return self.answer(SavePolicyRow(changed).data)


class IdlePolicyView(ApiView):
    shape = Shape.V2

    @extend_schema(
        operation_id="session_idle",
        tags=["sessions"],
        summary="Read whether and when an idle session is parked",
        responses={200: enveloped(IdlePolicyRow), **_READ},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self.answer(IdlePolicyRow(idle_policy.read(sessions.find(self.account, session_id))).data)

    @extend_schema(
        operation_id="session_idle_change",
        tags=["sessions"],
        summary="Switch the parking of an idle session on or off",
        description="Parks nothing by itself. A request that asks for what is so already changes nothing, so it may be repeated.",
        parameters=[KEY, PROTOCOL],
        request=IdlePolicyChange,
        responses={200: enveloped(IdlePolicyRow), **_WRITE},
        examples=[OpenApiExample("on", value={"enabled": True, "idle_minutes": 20, "expected_revision": 4}, request_only=True)],
    )
    def put(self, request: Request, session_id: str) -> Response:
        idempotency.key(request)
        wanted = body.checked(IdlePolicyChange, body.read(request))
        session = sessions.find(self.account, session_id)
        changed = idle_policy.change(session, **{"idle_minutes": None, "warning_seconds": None, **wanted})
        return self.answer(IdlePolicyRow(changed).data)
