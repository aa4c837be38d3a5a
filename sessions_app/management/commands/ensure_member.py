"""A person who may sign in for an account."""

import json
import secrets
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from sessions_app.errors import ServiceError
from sessions_app.models import Account
from sessions_app.roles import Role
from sessions_app.services import member as members


class Command(BaseCommand):
    help = (
        "Make the user if he is not there, and a member of the account with that role; safe to repeat. Prints "
        '{"account_id", "user", "role", "password"}: the password that was drawn for a new user, null for one who was there.'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", help="the account's name")
        parser.add_argument("user", help="the user's name")
        parser.add_argument("--role", choices=[role.value for role in Role], default=Role.OPERATOR.value)
        parser.add_argument("--json", action="store_true", help="print JSON, which is what this command prints in any case")

    def handle(self, *args: Any, account: str, user: str, role: str, **options: Any) -> None:
        found = Account.objects.filter(name=account).first()
        if found is None:
            raise CommandError(f"There is no account {account!r}; `ensure_account` makes one. Nobody was added.")
        try:
            with transaction.atomic():
                person, password = _person(user)
                members.ensure(found, person, Role(role), actor="command")
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(json.dumps({"account_id": found.id, "user": user, "role": role, "password": password}))


def _person(name: str) -> tuple[User, str | None]:
    found = User.objects.filter(username=name).first()
    if found is not None:
        return found, None
    person, password = User(username=name), secrets.token_urlsafe(18)
    person.set_password(password)
    try:
        person.full_clean()
    except ValidationError as error:
        raise CommandError(f"{' '.join(error.messages)} Nobody was added.") from error
    person.save()
    return person, password
