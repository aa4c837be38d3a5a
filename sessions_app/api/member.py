"""An account's members and their roles."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import body, pages
from sessions_app.api.auth import ACCOUNT
from sessions_app.api.body import Body
from sessions_app.api.envelope import Shape
from sessions_app.api.fields import Text
from sessions_app.api.idempotency import RecordedView
from sessions_app.api.schema import KEY, PROTOCOL, enveloped, errors, page_of, page_parameters
from sessions_app.errors import Invalid
from sessions_app.models import Membership
from sessions_app.roles import Role
from sessions_app.services import bounds
from sessions_app.services import member as members
from sessions_app.services.recorded import Answer

_ROLES = ", ".join(Role)


class AccountMember(serializers.Serializer[Membership]):
    id = serializers.CharField()
    user = serializers.CharField(source="user.username")
    active = serializers.BooleanField(source="user.is_active", help_text="false: he cannot sign in, and his tokens open nothing.")
    role = serializers.CharField(help_text=f"One of: {_ROLES}.")
    created_at = serializers.DateTimeField()


class NewMember(Body):
    user = Text(max_length=150, help_text="The name of a user who exists.")
    role = Text(max_length=20, help_text=f"One of: {_ROLES}.")


class RoleChange(Body):
    role = Text(max_length=20, help_text=f"One of: {_ROLES}.")


class MemberGone(serializers.Serializer[Any]):
    removed = serializers.BooleanField()
    member_id = serializers.CharField()
    tokens_revoked = serializers.IntegerField()


class MembersView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="member_list",
        tags=["account"],
        summary="List the account's members, newest first",
        parameters=[*page_parameters(bounds.DEFAULT_PAGE, bounds.PAGE), PROTOCOL],
        responses={200: page_of(AccountMember), **errors(400, 401, 403, 426)},
    )
    def get(self, request: Request) -> Response:
        limit = pages.whole(request.query_params, "limit", default=bounds.DEFAULT_PAGE, allowed=bounds.PAGE)
        page = members.page(self.account, limit=limit, cursor=request.query_params.get("cursor", ""))
        return self.answer(pages.rendered(page, AccountMember))

    @extend_schema(
        operation_id="member_add",
        tags=["account"],
        summary="Make a user a member",
        parameters=[KEY, PROTOCOL],
        request=NewMember,
        responses={201: enveloped(AccountMember), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
        examples=[OpenApiExample("a reader", value={"user": "ada", "role": "reader"}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(NewMember, data)
            member = members.add(self.account, wanted["user"], _role(wanted["role"]), actor=self.token.id)
            return Answer(_row(member), status=201)

        return self.record(request, do)


class MemberView(RecordedView):
    shape = Shape.V2
    needs = ACCOUNT

    @extend_schema(
        operation_id="member_change",
        tags=["account"],
        summary="Give a member another role",
        description="What the member's tokens may do follows at their next request. The last owner stays owner. Safe to repeat.",
        parameters=[KEY, PROTOCOL],
        request=RoleChange,
        responses={200: enveloped(AccountMember), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
    )
    def patch(self, request: Request, member_id: str) -> Response:
        def do(data: Any) -> Answer:
            wanted = body.checked(RoleChange, data)
            changed = members.change(members.find(self.account, member_id), _role(wanted["role"]), actor=self.token.id)
            return Answer(_row(changed))

        return self.record(request, do)

    @extend_schema(
        operation_id="member_remove",
        tags=["account"],
        summary="Remove a member and revoke his tokens of this account",
        description="The last owner cannot be removed. The user himself stays, and may be added again.",
        parameters=[KEY, PROTOCOL],
        request=None,
        responses={200: enveloped(MemberGone), **errors(400, 401, 403, 404, 409, 413, 415, 426)},
    )
    def delete(self, request: Request, member_id: str) -> Response:
        def do(data: Any) -> Answer:
            body.checked(Body, data)
            member = members.find(self.account, member_id)
            revoked = members.remove(member, actor=self.token.id)
            return Answer({"removed": True, "member_id": member.id, "tokens_revoked": revoked})

        return self.record(request, do)


def _row(member: Membership) -> dict[str, Any]:
    return dict(AccountMember(member).data)


def _role(word: str) -> Role:
    if word not in list(Role):
        raise Invalid(f"A role is one of: {_ROLES}. Nothing was changed.")
    return Role(word)
