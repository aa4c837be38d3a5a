"""Webhook endpoints: made, changed, given new secrets, removed by their account."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from sessions_app.errors import Conflict, Invalid, NotFound
from sessions_app.models import Account, WebhookEndpoint
from sessions_app.services import cursor as cursors
from sessions_app.services import steps
from sessions_app.services.cursor import Page
from sessions_app.services.webhooks import outbox, signature, target

MOST_ENDPOINTS = 20
MOST_TYPES = 50
_TYPE = re.compile(rf"(?:{'|'.join(outbox.FAMILIES)})\.(?:\*|[a-z_]{{1,50}})")
#: After a change of secret, messages are signed with both for so long.
OVERLAP = timedelta(hours=24)


@dataclass(frozen=True)
class Made:
    """`secret` is shown now and never again."""

    endpoint: WebhookEndpoint
    secret: str


def create(account: Account, *, url: str, types: list[str]) -> Made:
    """Prerequisite: inside a transaction. Raises Invalid, or Conflict for one endpoint too many; then nothing was made."""
    target.parse(url)
    _require_types(types)
    Account.objects.select_for_update(no_key=True).get(id=account.id)  # so that two at once are counted one after the other
    if WebhookEndpoint.objects.filter(account=account).count() >= MOST_ENDPOINTS:
        raise Conflict(
            f"The account has {MOST_ENDPOINTS} webhooks already, and no more are taken. Nothing was made.",
            next_action="Delete one, or let one take more types.",
            code="ks_quota_exceeded",
        )
    secret = signature.new_secret()
    made = WebhookEndpoint.objects.create(account=account, url=url, types=types, secret=steps.seal.call(account.id, secret))
    made.refresh_from_db()
    return Made(made, signature.shown(secret))


def _require_types(types: list[str]) -> None:
    wrong = [one for one in types if not _TYPE.fullmatch(one)]
    if wrong or len(types) > MOST_TYPES:
        families = ", ".join(f"{family}.*" for family in outbox.FAMILIES)
        raise Invalid(
            f"types is a list of at most {MOST_TYPES} types of events, such as session.parked, or of {families}. Nothing was changed.",
            next_action="Leave it empty for all.",
        )


def find(account: Account, endpoint_id: str) -> WebhookEndpoint:
    found = WebhookEndpoint.objects.filter(account=account, id=endpoint_id[:40]).first()
    if found is None:
        raise NotFound("There is no such webhook.", next_action="List them: GET /api/v2/webhooks.")
    return found


def page(account: Account, *, limit: int, cursor: str) -> Page[WebhookEndpoint]:
    """Newest first. Raises Invalid for a bad cursor."""
    return cursors.newest_first(WebhookEndpoint.objects.filter(account=account), limit=limit, cursor=cursor)


@transaction.atomic
def change(endpoint: WebhookEndpoint, changes: dict[str, Any], *, expected_revision: int) -> WebhookEndpoint:
    """`changes`: url, types, enabled. Raises Invalid, or Conflict for another revision than the present. Messages wait while disabled."""
    if "url" in changes:
        target.parse(changes["url"])
    if "types" in changes:
        _require_types(changes["types"])
    if "enabled" in changes:
        changes = {**changes, "disabled_reason": "" if changes["enabled"] else "by its owner"}
    row = WebhookEndpoint.objects.filter(id=endpoint.id, revision=expected_revision)
    changed = row.update(**changes, revision=F("revision") + 1)
    _refresh(endpoint)
    if not changed:
        raise Conflict(
            f"The webhook is at revision {endpoint.revision}; the request was made for {expected_revision}. Nothing was changed.",
            next_action="Read it again, then decide again.",
            facts={"revision": endpoint.revision, "expected_revision": expected_revision},
            code="ks_revision_conflict",
        )
    return endpoint


def rotate(endpoint: WebhookEndpoint) -> Made:
    """A new secret; the one before it signs beside it for a day. Prerequisite: inside a transaction."""
    secret = signature.new_secret()
    WebhookEndpoint.objects.filter(id=endpoint.id).update(
        previous_secret=F("secret"),
        previous_secret_until=Now() + OVERLAP,
        secret=steps.seal.call(endpoint.account_id, secret),
        revision=F("revision") + 1,
    )
    _refresh(endpoint)
    return Made(endpoint, signature.shown(secret))


def delete(endpoint: WebhookEndpoint) -> None:
    """With its messages, sent or not."""
    WebhookEndpoint.objects.filter(id=endpoint.id).delete()


def _refresh(endpoint: WebhookEndpoint) -> None:
    try:
        endpoint.refresh_from_db()
    except WebhookEndpoint.DoesNotExist:
        raise NotFound("There is no such webhook. It was deleted a moment ago.") from None
