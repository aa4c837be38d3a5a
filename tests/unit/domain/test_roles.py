"""What a token may do: its scopes, cut by the role that its user has in its account now."""

import pytest
from django.contrib.auth import get_user_model

from sessions_app.errors import Forbidden, Unauthenticated
from sessions_app.models import ApiToken, Membership
from sessions_app.roles import ROLE_SCOPES, Role, Scope, cut
from sessions_app.services import token as tokens
from tests.support.fleet import Tenant

READ, WRITE, MANAGE = Scope.SESSIONS_READ, Scope.SESSIONS_WRITE, Scope.ACCOUNT_MANAGE


def _token_of_user(owner: Tenant, role: Role, scopes: tuple[Scope, ...] = tuple(Scope)) -> str:
    user = get_user_model().objects.create(username="ada")
    Membership.objects.create(user=user, account=owner.account, role=role)
    return tokens.issue(owner.account, "laptop", user=user, scopes=scopes)[1]


def test_roles_are_steps_of_one_ladder() -> None:
    assert ROLE_SCOPES[Role.READER] < ROLE_SCOPES[Role.OPERATOR] < ROLE_SCOPES[Role.OWNER] == frozenset(Scope)


@pytest.mark.parametrize("role", [None, "", "admin"])
def test_what_is_no_role_leaves_nothing(role: str | None) -> None:
    assert cut(Scope, role) == []


@pytest.mark.parametrize(
    ("role", "scopes", "left"),
    [
        (Role.OWNER, (READ, WRITE, MANAGE), [READ, WRITE, MANAGE]),
        (Role.OWNER, (WRITE,), [WRITE]),
        (Role.OPERATOR, (READ, WRITE, MANAGE), [READ, WRITE]),
        (Role.READER, (READ, WRITE, MANAGE), [READ]),
        (Role.READER, (WRITE,), []),
    ],
)
def test_a_role_cuts_what_the_token_carries(owner: Tenant, role: Role, scopes: tuple[Scope, ...], left: list[Scope]) -> None:
    assert tokens.authenticate(_token_of_user(owner, role, scopes)).effective_scopes == left


def test_a_role_that_changes_counts_from_the_next_request(owner: Tenant) -> None:
    plain = _token_of_user(owner, Role.OWNER)
    Membership.objects.update(role=Role.READER)
    token = tokens.authenticate(plain)
    assert token.effective_scopes == [READ]
    with pytest.raises(Forbidden, match="role reader does not allow sessions:write") as refused:
        tokens.require(token, WRITE)
    assert refused.value.facts == {"missing_scope": WRITE}


def test_a_member_who_is_removed_has_no_token_any_more(owner: Tenant) -> None:
    plain = _token_of_user(owner, Role.OWNER)
    Membership.objects.all().delete()
    with pytest.raises(Unauthenticated):
        tokens.authenticate(plain)


def test_a_membership_of_another_account_opens_nothing_here(owner: Tenant, stranger: Tenant) -> None:
    plain = _token_of_user(owner, Role.OWNER)
    Membership.objects.update(account=stranger.account)
    with pytest.raises(Unauthenticated):
        tokens.authenticate(plain)


def test_an_inactive_user_has_no_token(owner: Tenant) -> None:
    plain = _token_of_user(owner, Role.OWNER)
    get_user_model().objects.update(is_active=False)
    with pytest.raises(Unauthenticated):
        tokens.authenticate(plain)


def test_the_token_of_a_deleted_user_goes_with_him(owner: Tenant) -> None:
    _token_of_user(owner, Role.OWNER)
    get_user_model().objects.get().delete()
    assert list(ApiToken.objects.all()) == [owner.token]


def test_a_token_of_no_user_has_its_scopes_alone(owner: Tenant) -> None:
    token = tokens.authenticate(tokens.issue(owner.account, "command", scopes=("sessions:read", "nonsense"))[1])
    assert token.effective_scopes == [READ]


def test_a_token_that_was_not_looked_up_with_its_role_may_do_nothing(owner: Tenant) -> None:
    token = tokens.authenticate(_token_of_user(owner, Role.OWNER))
    assert ApiToken.objects.get(id=token.id).effective_scopes == []
