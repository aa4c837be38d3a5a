"""Retention: what of the saved points is kept by itself, for an account or for one session. Nothing expires unless it is asked for."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints_app.services import retention_preview
from checkpoints_app.services.retention_preview import Preview
from sessions_app.api import body, pages
from sessions_app.api.auth import SESSIONS, SESSIONS_READ, Needs
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Flag, Known, Text, Whole
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors
from sessions_app.models import RetentionPolicy, Session
from sessions_app.roles import Scope
from sessions_app.services import bounds, retention
from sessions_app.services import session as sessions
from sessions_app.services.recorded import Answer
from sessions_app.services.retention import Rules

_READ = errors(401, 403, 404, 409, 426, 429)
_WRITE = errors(400, 401, 403, 404, 409, 413, 415, 426, 429)
#: An account's policy is read by whoever reads sessions, and set by who manages the account.
_OF_ACCOUNT = Needs(Scope.SESSIONS_READ, Scope.ACCOUNT_MANAGE)
_MOST = bounds.RETENTION_KEEPS.stop - 1
_BASIS = (
    "Counts are of saved points and of hours, days and weeks (UTC) in which there is one, the newest of each: nothing expires by time "
    "alone. The head, named and held points, and what an operation needs never expire."
)


class RulesWanted(Body):
    keep_last = Whole(required=False, min_value=0, max_value=_MOST, help_text="The newest so many points.")
    keep_hourly = Whole(required=False, min_value=0, max_value=_MOST, help_text="The newest point of each of the last so many hours.")
    keep_daily = Whole(required=False, min_value=0, max_value=_MOST, help_text="The newest point of each of the last so many days.")
    keep_weekly = Whole(required=False, min_value=0, max_value=_MOST, help_text="The newest point of each of the last so many weeks.")
    keep_named = Flag(
        required=False, help_text="Named points stay beside the counts (true, the default), or take a place in them. They always stay."
    )
    enabled = Flag(required=False, help_text="false: everything is kept, also where the account has a policy.")


class PolicyWanted(RulesWanted):
    expected_revision = Whole(help_text="The policy's revision as it was read; 0 where there never was one.")
    plan_id = Text(required=False, max_length=40, help_text="Of the preview of these rules; needed where they let points expire.")
    plan_digest = Text(required=False, max_length=64)


class PreviewWanted(RulesWanted):
    inherit = Flag(required=False, help_text="Of a session: preview the account's policy, as without its own.")
    limit = Whole(required=False, min_value=bounds.PAGE.start, max_value=bounds.PAGE.stop - 1)
    cursor = Text(required=False, allow_blank=True, max_length=300)


class RulesRow(serializers.Serializer[Rules]):
    enabled = serializers.BooleanField()
    keep_last = serializers.IntegerField()
    keep_hourly = serializers.IntegerField()
    keep_daily = serializers.IntegerField()
    keep_weekly = serializers.IntegerField()
    keep_named = serializers.BooleanField()


class RetentionRow(serializers.Serializer[Any]):
    """`policy`: set here, or null. `effective`: what decides over saved points now, or null: everything is kept."""

    policy = RulesRow(allow_null=True)
    effective = RulesRow(allow_null=True)
    inherited = serializers.BooleanField(help_text="Of a session: the account's policy decides.")
    revision = serializers.IntegerField()
    changed_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()


class FateRow(serializers.Serializer[Any]):
    checkpoint_id = serializers.CharField(source="checkpoint.id")
    session_id = serializers.CharField(source="checkpoint.session_id")
    created_at = serializers.DateTimeField(source="checkpoint.created_at")
    name = Known(source="checkpoint.name")
    stored_bytes = serializers.IntegerField(source="checkpoint.stored_bytes", allow_null=True)
    expires = serializers.SerializerMethodField()
    kept_by = serializers.ListField(
        child=serializers.CharField(), help_text="head, named, held, needed, or names of rules; empty where it expires."
    )

    def get_expires(self, fate: Any) -> bool:
        return not fate.kept_by


class PreviewRow(serializers.Serializer[Preview]):
    """Counts are of the whole, and null where this page is not all of an account's. The plan is in the first page, for 15 minutes."""

    items = FateRow(many=True)
    next_cursor = serializers.CharField(allow_blank=True)
    expire_count = serializers.IntegerField(allow_null=True)
    keep_count = serializers.IntegerField(allow_null=True)
    revision = serializers.IntegerField()
    plan_id = serializers.CharField(source="plan.id", default=None, allow_null=True)
    plan_digest = serializers.CharField(source="plan.digest", default=None, allow_null=True)
    expires_at = serializers.DateTimeField(source="plan.expires_at", default=None, allow_null=True)


def rules_wanted(wanted: dict[str, Any]) -> Rules:
    """Raises Invalid for rules that keep nothing by any count."""
    rules = Rules(**{name: wanted[name] for name in asdict(Rules()) if name in wanted})
    if rules.enabled:
        bounds.require_retention(rules.counts)
    return rules


def row(policy: RetentionPolicy, session: Session | None) -> dict[str, Any]:
    own = retention.rules_of(policy) if policy.active else None
    decides = own if session is None else retention.effective(session)
    effective = decides if decides is not None and decides.enabled else None
    told = {
        "policy": own,
        "effective": effective,
        "inherited": session is not None and own is None and effective is not None,
        "revision": policy.revision,
        "changed_at": policy.changed_at if policy.revision else None,
        "note": _BASIS,
    }
    return dict(RetentionRow(told).data)


class _RetentionView(RecordedView):
    """Of an account where the route names no session."""

    shape = Shape.V2

    def _session(self, session_id: str | None) -> Session | None:
        return None if session_id is None else sessions.find(self.account, session_id)

    def _read(self, session_id: str | None) -> Response:
        session = self._session(session_id)
        return self.answer(row(retention.find(self.account, session), session))

    def _set(self, request: Request, session_id: str | None) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(PolicyWanted, data)
            return self._changed(self._session(session_id), rules_wanted(wanted), wanted)

        return self.record(request, do)

    def _take_away(self, request: Request, session_id: str | None) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            query = request.query_params
            expected = pages.whole(query, "expected_revision", default=-1, allowed=range(2**31))
            wanted = {"expected_revision": expected, "plan_id": query.get("plan_id"), "plan_digest": query.get("plan_digest")}
            return self._changed(self._session(session_id), None, wanted)

        return self.record(request, do)

    def _changed(self, session: Session | None, rules: Rules | None, wanted: dict[str, Any]) -> Answer:
        consent = retention_preview.consent_of(self.account, session, wanted.get("plan_id"), wanted.get("plan_digest"))
        changed = retention.change(self.account, session, rules, expected_revision=wanted["expected_revision"], consent=consent)
        return Answer(row(changed, session))


_SET = {
    "tags": ["retention"],
    "parameters": [KEY, PROTOCOL],
    "request": PolicyWanted,
    "responses": {200: enveloped(RetentionRow), **_WRITE},
    "description": f"{_BASIS} Rules under which points may expire need the plan of their preview. What is so already is not changed.",
    "examples": [
        OpenApiExample("keep everything", value={"enabled": False, "expected_revision": 0}, request_only=True),
    ],
}
_TAKE_AWAY = {
    "tags": ["retention"],
    "parameters": [
        KEY,
        PROTOCOL,
        OpenApiParameter("expected_revision", int, required=True, description="The policy's revision as it was read."),
        OpenApiParameter("plan_id", str, description="Of a preview with `inherit`, where the account's policy decides then."),
        OpenApiParameter("plan_digest", str, description="Of that preview."),
    ],
    "request": None,
    "responses": {200: enveloped(RetentionRow), **_WRITE},
}


class AccountRetentionView(_RetentionView):
    needs = _OF_ACCOUNT

    @extend_schema(
        operation_id="retention",
        tags=["retention"],
        summary="Read the account's retention policy",
        responses={200: enveloped(RetentionRow), **_READ},
    )
    def get(self, request: Request) -> Response:
        return self._read(None)

    @extend_schema(operation_id="retention_set", summary="Set the account's retention policy", **_SET)  # type: ignore[arg-type]
    def put(self, request: Request) -> Response:
        return self._set(request, None)

    @extend_schema(operation_id="retention_delete", summary="Take the account's retention policy away", **_TAKE_AWAY)  # type: ignore[arg-type]
    def delete(self, request: Request) -> Response:
        return self._take_away(request, None)


class SessionRetentionView(_RetentionView):
    needs = SESSIONS

    @extend_schema(
        operation_id="session_retention",
        tags=["retention"],
        summary="Read a session's retention policy",
        responses={200: enveloped(RetentionRow), **_READ},
    )
    def get(self, request: Request, session_id: str) -> Response:
        return self._read(session_id)

    @extend_schema(operation_id="session_retention_set", summary="Set a session's retention policy", **_SET)  # type: ignore[arg-type]
    def put(self, request: Request, session_id: str) -> Response:
        return self._set(request, session_id)

    @extend_schema(operation_id="session_retention_delete", summary="Take a session's retention policy away", **_TAKE_AWAY)  # type: ignore[arg-type]
    def delete(self, request: Request, session_id: str) -> Response:
        return self._take_away(request, session_id)


_PREVIEW = {
    "tags": ["retention"],
    "parameters": [KEY, PROTOCOL],
    "request": PreviewWanted,
    "responses": {200: enveloped(PreviewRow), **_WRITE},
    "description": f"Every valid point with what keeps it, or that it expires. Changes nothing. {_BASIS}",
    "examples": [OpenApiExample("a week of days", value={"keep_last": 5, "keep_daily": 7}, request_only=True)],
}


class AccountPreviewView(RecordedView):
    shape = Shape.V2
    needs = SESSIONS_READ

    @extend_schema(operation_id="retention_preview", summary="Show what a policy of the account would do now", **_PREVIEW)  # type: ignore[arg-type]
    def post(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(PreviewWanted, data)
            return _previewed(retention_preview.of_account(self.account, rules_wanted(wanted), **_page(wanted)))

        return self.record(request, do)


class SessionPreviewView(RecordedView):
    shape = Shape.V2
    needs = SESSIONS_READ

    @extend_schema(operation_id="session_retention_preview", summary="Show what a policy of the session would do now", **_PREVIEW)  # type: ignore[arg-type]
    def post(self, request: Request, session_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(PreviewWanted, data)
            session = sessions.find(self.account, session_id)
            account_policy = retention.find(self.account)
            inherited = retention.rules_of(account_policy) if account_policy.active else Rules(enabled=False)
            rules = inherited if wanted.get("inherit") else rules_wanted(wanted)
            return _previewed(retention_preview.of_session(session, rules, **_page(wanted)))

        return self.record(request, do)


def _page(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"limit": wanted.get("limit", bounds.DEFAULT_PAGE), "cursor": wanted.get("cursor", "")}


def _previewed(preview: Preview) -> Answer:
    return Answer(dict(PreviewRow(preview).data))
