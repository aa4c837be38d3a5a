"""Provider keys of accounts: written once, sealed, changed against the revision that was read, deleted by a plan.

A secret is exchanged in place and the key keeps its id, so that what is bound to it goes on with the new one; a second key of one provider
is another key.
"""

import hashlib
import re
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from gateway_app.models import KeyBinding, ProviderKey
from gateway_app.states import Provider
from sessions_app.errors import Conflict, Invalid, NotFound
from sessions_app.models import Account, Plan, Session
from sessions_app.services import account as accounts
from sessions_app.services import cursor as cursors
from sessions_app.services import event, plan, record, steps
from sessions_app.services.cursor import Page
from sessions_app.states import PlanKind, RecordKind

MOST_KEYS = 100
SECRET_CHARACTERS = range(8, 8 * 1024 + 1)
ALIAS_CHARACTERS = 48
_SECRET = re.compile(r"[\x21-\x7e]+")
_SHOWN = 20
_LIST = "List them: GET /api/v2/keys."


def create(account: Account, *, provider: str, secret: str, alias: str, actor: str) -> ProviderKey:
    """Prerequisite: inside a transaction. Raises Invalid, AccountClosing, or Conflict for one key too many; then nothing was kept."""
    _require_provider(provider)
    _require_secret(secret)
    _require_alias(alias)
    Account.objects.select_for_update(no_key=True).get(id=account.id)  # so that two at once are counted one after the other
    accounts.require_open(account.id)
    if ProviderKey.objects.filter(account=account).count() >= MOST_KEYS:
        raise Conflict(
            f"The account has {MOST_KEYS} provider keys already, and no more are taken. Nothing was kept.",
            next_action="Delete one, or exchange the secret of one: PATCH /api/v2/keys/<id>.",
            code="ks_quota_exceeded",
        )
    made = ProviderKey.objects.create(account=account, provider=provider, alias=alias, **_sealed(account.id, secret))
    made.refresh_from_db()
    _tell(made, "key.created", actor)
    return made


def find(account: Account, key_id: str) -> ProviderKey:
    found = ProviderKey.objects.filter(account=account, id=key_id[:40]).first()
    if found is None:
        raise NotFound("There is no such provider key.", next_action=_LIST)
    return found


def page(account: Account, *, limit: int, cursor: str) -> Page[ProviderKey]:
    """Newest first. Raises Invalid for a bad cursor."""
    return cursors.newest_first(ProviderKey.objects.filter(account=account).defer("secret"), limit=limit, cursor=cursor)


def change(key: ProviderKey, *, expected_revision: int, actor: str, secret: str | None = None, **changes: Any) -> ProviderKey:
    """`changes`: enabled, alias. Prerequisite: inside a transaction. Raises Invalid, NotFound or Conflict; then nothing was changed.

    A disabled key lets no new call out; what is on its way is read to its end.
    """
    if "alias" in changes:
        _require_alias(changes["alias"])
    if secret is not None:
        _require_secret(secret)
        changes |= _sealed(key.account_id, secret)
    mine = ProviderKey.objects.filter(id=key.id, revision=expected_revision)
    changed = mine.update(**changes, revision=F("revision") + 1, updated_at=Now())
    after = ProviderKey.objects.filter(id=key.id).first()
    if after is None:
        raise NotFound("There is no such provider key. It was deleted a moment ago.", next_action=_LIST)
    if not changed:
        raise Conflict(
            f"The key is at revision {after.revision}; the request was made for {expected_revision}. Nothing was changed.",
            next_action="Read it again, then decide again.",
            facts={"revision": after.revision, "expected_revision": expected_revision},
            code="ks_revision_conflict",
        )
    for type_ in _told_of(key, after, exchanged=secret is not None):
        _tell(after, type_, actor)
    return after


def make_plan(key: ProviderKey) -> Plan:
    """What a deletion would drop, as it is now. Changes nothing."""
    bound = _bound(key)
    content = {
        "key_id": key.id,
        "provider": key.provider,
        "alias": key.alias or None,
        "last4": key.last4,
        "bindings": {"count": len(bound), "sessions": bound[:_SHOWN]},
        "effect": "The secret is erased; these sessions are bound to no key of this provider. Calls on their way are read to their end.",
    }
    return plan.make(key.account, PlanKind.KEY_DELETION, session=None, content=content, basis=_basis(key, bound))


@transaction.atomic
def delete(key: ProviderKey, *, plan_id: str, actor: str) -> int:
    """The key as planned, with its bindings. Returns how many. Raises NotFound, or Conflict as `plan.take`; then nothing was deleted."""
    if not plan_id:
        raise Conflict(
            "A provider key is deleted by a plan. Nothing was deleted.",
            next_action=f"POST /api/v2/keys/{key.id}/deletion-plan, read it, then DELETE with its id as plan_id.",
            code="ks_plan_required",
        )
    list(Session.objects.select_for_update(no_key=True).filter(id__in=_bound(key)).order_by("id"))  # sessions first, as a binding does
    locked = ProviderKey.objects.select_for_update().filter(id=key.id).first()  # no session is bound to it from here on
    if locked is None:
        raise NotFound("There is no such provider key. It was deleted a moment ago.", next_action=_LIST)
    bound = _bound(locked)
    plan.take(key.account, PlanKind.KEY_DELETION, plan_id, session=None, basis=_basis(locked, bound))
    for session_id in bound:
        event.append(session_id, "session.bindings", {"dropped": {locked.provider: locked.id}}, source="api")
        Session.objects.filter(id=session_id).update(revision=F("revision") + 1)
    _tell(locked, "key.deleted", actor, bindings_dropped=len(bound))
    locked.delete()
    return len(bound)


def _bound(key: ProviderKey) -> list[str]:
    """In order, which is the one in which their rows are locked."""
    return list(KeyBinding.objects.filter(key=key).order_by("session_id").values_list("session_id", flat=True))


def _basis(key: ProviderKey, bound: list[str]) -> dict[str, Any]:
    sessions = hashlib.sha256(" ".join(bound).encode()).hexdigest()[:16]
    return {"key_id": key.id, "revision": key.revision, "sessions": f"{len(bound)} ({sessions})"}


def _sealed(account_id: str, secret: str) -> dict[str, Any]:
    return {"secret": steps.seal.call(account_id, secret.encode()), "last4": secret[-4:]}


def _told_of(before: ProviderKey, after: ProviderKey, *, exchanged: bool) -> list[str]:
    moved = before.enabled != after.enabled
    return [*(["key.exchanged"] if exchanged else []), *(["key.enabled" if after.enabled else "key.disabled"] if moved else [])]


def _tell(key: ProviderKey, type_: str, actor: str, **facts: Any) -> None:
    told = {"key_id": key.id, "provider": key.provider, **facts}
    record.write(RecordKind.LIFECYCLE, type_, account_id=key.account_id, actor=actor, facts=told)


def _require_provider(provider: str) -> None:
    if provider not in list(Provider):
        raise Invalid(f"provider is one of: {', '.join(Provider)}. Nothing was kept.")


def _require_secret(secret: str) -> None:
    """What is refused is not repeated."""
    if len(secret) not in SECRET_CHARACTERS or not _SECRET.fullmatch(secret):
        least, most = SECRET_CHARACTERS.start, SECRET_CHARACTERS.stop - 1
        raise Invalid(f"A secret has {least} to {most} visible ASCII characters and no blanks. Nothing was kept.")


def _require_alias(alias: str) -> None:
    if len(alias) > ALIAS_CHARACTERS or not alias.isprintable():
        raise Invalid(f"An alias has at most {ALIAS_CHARACTERS} printable characters. Nothing was changed.")
