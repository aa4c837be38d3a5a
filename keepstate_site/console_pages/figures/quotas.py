"""Accounts that are near what they may have: of stored bytes and of running machines. Sessions are counted at the account's page alone."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import BigIntegerField, Case, Count, F, Value, When

from sessions_app.models import AccountQuota, AccountUsage, Session
from sessions_app.services.quota import Quota
from sessions_app.states import SESSION_LIVE

NEAR = 0.8
SHOWN = 10
#: Accounts with the most machines that are looked at.
_LOOKED_AT = 100


@dataclass(frozen=True)
class Near:
    account_id: str
    name: str
    quota: Quota
    used: int
    limit: int

    @property
    def share(self) -> float:
        """Of the limit; a limit of nothing is full."""
        return self.used / self.limit if self.limit else 1.0


def near() -> list[Near]:
    """The fullest first, at most SHOWN."""
    return sorted([*_bytes(), *_machines()], key=lambda one: (-one.share, one.name))[:SHOWN]


def _bytes() -> list[Near]:
    default = (settings.KEEPSTATE_QUOTA_GIB << 30) or None
    limit = Case(
        When(account__quota__isnull=False, then=F("account__quota__stored_bytes")),
        default=Value(default, output_field=BigIntegerField()),
        output_field=BigIntegerField(),
    )
    full = AccountUsage.objects.annotate(limit=limit).filter(limit__gt=0, stored_bytes__gte=F("limit") * NEAR)
    rows = full.order_by(F("limit") - F("stored_bytes")).values_list("account_id", "account__name", "stored_bytes", "limit")[:SHOWN]
    return [Near(account_id, name, Quota.STORED_BYTES, used or 0, most) for account_id, name, used, most in rows]


def _machines() -> list[Near]:
    default = settings.KEEPSTATE_QUOTA_MACHINES or None
    live = Session.objects.filter(runtime_state__in=SESSION_LIVE).order_by()
    counted = live.values_list("account_id", "account__name").annotate(number=Count("id")).order_by("-number", "account_id")[:_LOOKED_AT]
    rows = list(counted)
    limits = dict(AccountQuota.objects.filter(account_id__in=[row[0] for row in rows]).values_list("account_id", "running_machines"))
    found = [(account_id, name, number, limits.get(account_id, default)) for account_id, name, number in rows]
    return [
        Near(account_id, name, Quota.RUNNING_MACHINES, number, most)
        for account_id, name, number, most in found
        if most is not None and number >= most * NEAR
    ]
