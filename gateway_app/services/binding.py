"""Which key a session's model calls go out with, provider by provider: that key is used, or nothing is."""

from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import F

from gateway_app.models import KeyBinding, ProviderKey
from gateway_app.services import live
from gateway_app.states import Provider
from sessions_app.errors import Conflict, Invalid, NotFound
from sessions_app.models import Session
from sessions_app.services import account as accounts
from sessions_app.services import event, revision
from sessions_app.services.steps import BoundKey


@transaction.atomic
def bind(session: Session, keys: Mapping[str, str | None], *, expected_revision: int) -> Session:
    """Bind the named providers to the keys, None to no key; other providers stay as they are. Calls from now on go by it.

    Raises Invalid, NotFound for a key that is not the account's, Conflict for a disabled one or a session that has moved on; then nothing
    was bound. Asking for what is so already changes nothing, whatever revision it names.
    """
    _require_providers(keys)
    accounts.require_open(session.account_id)
    session = live.lock(session)
    wanted = {provider: key_id for provider, key_id in keys.items() if key_id is not None}
    _require_usable(session, wanted)
    now = dict(KeyBinding.objects.filter(session=session, provider__in=keys).values_list("provider", "key_id"))
    if now != wanted:
        revision.advance(session, expected_revision)
        KeyBinding.objects.filter(session=session, provider__in=set(keys) - set(wanted)).delete()
        for provider, key_id in sorted(wanted.items()):
            KeyBinding.objects.update_or_create(session=session, provider=provider, defaults={"key_id": key_id})
        event.append(session.id, "session.bindings", {"keys": dict(keys)}, source="api")
        session.refresh_from_db()
    return session


def _require_providers(keys: Mapping[str, str | None]) -> None:
    unknown = sorted(set(keys) - set(Provider))
    if unknown or not keys:
        raise Invalid(f"keys maps a provider ({', '.join(Provider)}) to the id of a key. Nothing was bound.")


def _require_usable(session: Session, wanted: Mapping[str, str]) -> None:
    """The keys are held against a deletion until the commit."""
    locked = ProviderKey.objects.select_for_update(no_key=True).filter(account_id=session.account_id, id__in=wanted.values())
    found = {key.id: key for key in locked.order_by("id")}
    for provider, key_id in sorted(wanted.items()):
        key = found.get(key_id)
        if key is None:
            raise NotFound("There is no such provider key. Nothing was bound.", next_action="List them: GET /api/v2/keys.")
        if key.provider != provider:
            raise Invalid(f"The key {key.id} is one of {key.provider}, not of {provider}. Nothing was bound.")
        if not key.enabled:
            raise Conflict(
                f"The key {key.id} is disabled. Nothing was bound.",
                next_action=f"Enable it: PATCH /api/v2/keys/{key.id}, or bind another.",
                facts={"key_id": key.id},
                code="ks_key_disabled",
            )


def of_sessions(session_ids: Iterable[str]) -> dict[str, list[BoundKey]]:
    """One query for all of them; providers in order."""
    rows = KeyBinding.objects.filter(session_id__in=list(session_ids), key__account_id=F("session__account_id"))
    found: dict[str, list[BoundKey]] = {}
    for session_id, provider, key_id, alias, last4, enabled in rows.order_by("session_id", "provider").values_list(
        "session_id", "provider", "key_id", "key__alias", "key__last4", "key__enabled"
    ):
        found.setdefault(session_id, []).append(BoundKey(provider, key_id, alias or f"…{last4}", enabled))
    return found


def inherit(parent: Session, child: Session) -> None:
    """A fork's child is bound as its parent is now, but to no key that is disabled. Prerequisite: inside the commit that makes it."""
    usable = [bound for bound in of_sessions([parent.id]).get(parent.id, []) if bound.usable]
    KeyBinding.objects.bulk_create([KeyBinding(session=child, provider=bound.provider, key_id=bound.key_id) for bound in usable])


def has_key(account_id: str, provider: str) -> bool:
    return ProviderKey.objects.filter(account_id=account_id, provider=provider, enabled=True).exists()
