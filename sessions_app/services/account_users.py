"""An account's users who are in no other account, and what signing in and the console have written about them by name."""

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Exists, Model, OuterRef, QuerySet

from sessions_app.models import Account, Membership

_BATCH = 200  # users that one commit erases
_SIGN_IN = "axes"  # the app that keeps refused sign-ins, by name


def erase(account: Account, *, told: Callable[[str, int], None]) -> None:
    """Safe to repeat. Who runs the service stays, and so does who belongs to another account as well."""
    users = get_user_model()
    while found := list(_of_it_alone(account)[:_BATCH]):
        keys, names = [user.pk for user in found], [user.get_username() for user in found]
        with transaction.atomic():
            for table in _named_at_sign_in():
                table._default_manager.filter(username__in=names).delete()
            entries = LogEntry.objects.filter(
                content_type=ContentType.objects.get_for_model(users), object_id__in=[str(key) for key in keys]
            )
            entries.delete()
            users._default_manager.filter(pk__in=keys).delete()
            told("users", len(keys))


def _of_it_alone(account: Account) -> "QuerySet[Any]":
    elsewhere = Exists(Membership.objects.filter(user=OuterRef("pk")).exclude(account=account))
    return get_user_model()._default_manager.filter(~elsewhere, memberships__account=account, is_staff=False, is_superuser=False)


def _named_at_sign_in() -> list[type[Model]]:
    tables = apps.get_app_config(_SIGN_IN).get_models()
    return [table for table in tables if any(field.name == "username" for field in table._meta.fields)]
