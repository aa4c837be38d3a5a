"""Members of an account: who has which role in it. The last owner stays."""

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from sessions_app.errors import Conflict, NotFound, WrongState
from sessions_app.models import Account, ApiToken, Membership
from sessions_app.roles import Role
from sessions_app.services import bounds, record
from sessions_app.services import cursor as cursors
from sessions_app.services.cursor import Page
from sessions_app.states import RecordKind


def page(account: Account, *, limit: int, cursor: str = "") -> Page[Membership]:
    """The newest first. Raises Invalid for a bad cursor."""
    members = Membership.objects.filter(account=account).select_related("user")
    return cursors.newest_first(members, limit=limit, cursor=cursor)


def find(account: Account, member_id: str) -> Membership:
    """Raises NotFound for what is no member of this account."""
    member = Membership.objects.select_related("user").filter(account=account, id=member_id[:40]).first()
    if member is None:
        raise NotFound("There is no such member. Nothing was done.", next_action="List them: GET /api/v2/members.")
    return member


def add(account: Account, username: str, role: Role, *, actor: str) -> Membership:
    """Make an existing, active user a member. Raises NotFound, or Conflict where he is one already or there are too many."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound("There is no active user of that name. Nobody was added.", next_action="Ask the operator to make one.")
    return _add(account, user, role, actor)


def ensure(account: Account, user: User, role: Role, *, actor: str) -> Membership:
    """The user's membership with that role, made or changed. Raises as `add` and `change` do."""
    member = Membership.objects.filter(account=account, user=user).select_related("user", "account").first()
    return change(member, role, actor=actor) if member else _add(account, user, role, actor)


def _add(account: Account, user: User, role: Role, actor: str) -> Membership:
    with transaction.atomic():
        _lock(account)
        if Membership.objects.filter(account=account).count() >= bounds.MEMBERS:
            raise Conflict(f"An account has at most {bounds.MEMBERS} members. Nobody was added.", code="ks_quota_exceeded")
        try:
            with transaction.atomic():
                member = Membership.objects.create(account=account, user=user, role=role)
        except IntegrityError as error:
            raise Conflict("That user is a member already. Nothing was changed.", next_action="Change the role instead.") from error
        _record("member.added", member, actor)
    return find(account, member.id)


def change(member: Membership, role: Role, *, actor: str) -> Membership:
    """Give him another role; what his tokens may do follows at their next request. Raises WrongState for the last owner."""
    with transaction.atomic():
        _lock(member.account)
        if role != Role.OWNER:
            _require_another_owner(member, "demoted")
        if not Membership.objects.filter(id=member.id).exclude(role=role).update(role=role):
            return find(member.account, member.id)  # it is so already, or he was removed meanwhile
        member.role = role
        _record("member.changed", member, actor)
    return find(member.account, member.id)


def remove(member: Membership, *, actor: str) -> int:
    """End his membership, and revoke his tokens of this account: a later membership must not revive them.

    Returns how many tokens were revoked. Raises WrongState for the last owner.
    """
    with transaction.atomic():
        _lock(member.account)
        _require_another_owner(member, "removed")
        revoked = ApiToken.objects.filter(account=member.account, user=member.user, revoked_at=None).update(revoked_at=Now())
        if Membership.objects.filter(id=member.id).delete()[0]:
            _record("member.removed", member, actor)
    return revoked


def _lock(account: Account) -> None:
    """One change of members at a time: two owners must not demote each other at the same moment."""
    Account.objects.select_for_update(no_key=True).get(id=account.id)


def _require_another_owner(member: Membership, what: str) -> None:
    """Owners who cannot sign in do not count: nobody could manage the account any more."""
    owners = Membership.objects.filter(account=member.account, role=Role.OWNER)
    if owners.filter(id=member.id).exists() and not owners.exclude(id=member.id).filter(user__is_active=True).exists():
        raise WrongState(
            f"This is the account's last owner, who cannot be {what}. Nothing was changed.",
            next_action="Make another member owner first.",
            code="ks_last_owner",
        )


def _record(type_: str, member: Membership, actor: str) -> None:
    facts = {"member_id": member.id, "user_id": member.user_id, "role": member.role}
    record.write(RecordKind.LIFECYCLE, type_, account_id=member.account_id, actor=actor, facts=facts)
