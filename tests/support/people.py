"""Users, their memberships, and callers with a token of theirs."""

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from sessions_app.models import Account, Membership
from sessions_app.roles import Role
from sessions_app.services import token as tokens
from tests.support.api import Caller

PASSWORD = "correct horse battery"


def member(account: Account, name: str, role: Role) -> Membership:
    user = get_user_model().objects.filter(username=name).first() or get_user_model().objects.create_user(name, password=PASSWORD)
    return Membership.objects.create(user=user, account=account, role=role)


def caller_of(membership: Membership) -> Caller:
    return Caller(tokens.issue(membership.account, "laptop", user=membership.user)[1])


def person(name: str) -> User:
    return get_user_model().objects.get(username=name)
