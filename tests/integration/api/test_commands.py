"""The commands that give an installation its first account and its operator."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import CommandError, call_command
from django.test import RequestFactory

from sessions_app.models import Account, ApiToken, Membership
from sessions_app.services import token as tokens
from tests.support.api import Caller

pytestmark = pytest.mark.django_db


def _ask(*arguments: str) -> dict[str, Any]:
    answer = io.StringIO()
    call_command(*arguments, "--json", stdout=answer)
    return dict(json.loads(answer.getvalue()))


def test_an_account_is_made_once_and_its_token_opens_it() -> None:
    first, second = _ask("ensure_account", "demo"), _ask("ensure_account", "demo")
    assert first["account_id"] == second["account_id"]
    assert Caller(first["token"])("GET", "/api/whoami").json()["account_id"] == first["account_id"]
    assert Account.objects.count() == 1


def test_a_kept_token_is_used_again_while_it_opens_the_account(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "token"
    first, second = (_ask("ensure_account", "demo", "--token-file", str(file)) for _ in range(2))
    assert first == second
    assert file.read_text().strip() == first["token"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("why", ["revoked", "of another account", "garbage", "empty"])
def test_a_kept_token_that_does_not_open_the_account_is_replaced(tmp_path: Path, why: str) -> None:
    file = tmp_path / "token"
    first = _ask("ensure_account", "other" if why == "of another account" else "demo", "--token-file", str(file))
    if why == "revoked":
        tokens.revoke(ApiToken.objects.get())
    if why in ("garbage", "empty"):
        file.write_text({"garbage": "x" * 50, "empty": ""}[why])
    second = _ask("ensure_account", "demo", "--token-file", str(file))
    assert second["token"] != first["token"]
    assert file.read_text().strip() == second["token"]
    assert tokens.authenticate(second["token"]).account.name == "demo"


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    _ask("ensure_account", "demo", "--token-file", str(file))
    file.chmod(0o644)
    with pytest.raises(CommandError, match="read by others"):
        _ask("ensure_account", "demo", "--token-file", str(file))


def test_a_token_that_could_not_be_kept_is_revoked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError):
        _ask("ensure_account", "demo", "--token-file", str(tmp_path / "file" / "token"))
    assert not ApiToken.objects.filter(revoked_at=None).exists()


@pytest.mark.parametrize("name", ["", "   ", "n" * 101, "line\nbreak"])
def test_a_name_that_is_none_makes_nothing(name: str) -> None:
    with pytest.raises(CommandError):
        call_command("ensure_account", name)
    assert not Account.objects.exists()


def _opens(login: dict[str, Any]) -> bool:
    user = authenticate(RequestFactory().post("/"), username=login["username"], password=login["password"])
    return user is not None and bool(getattr(user, "is_superuser", False))


def test_the_operator_is_made_with_a_password_that_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "admin"
    first, second = (_ask("ensure_admin", "--password-file", str(file)) for _ in range(2))
    assert first == second
    assert _opens(first)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_kept_password_opens_a_new_database(tmp_path: Path) -> None:
    file = tmp_path / "admin"
    first = _ask("ensure_admin", "--password-file", str(file))
    get_user_model().objects.all().delete()
    assert _ask("ensure_admin", "--password-file", str(file)) == first
    assert _opens(first)


def test_a_password_that_a_person_changed_is_left_alone_and_not_known(tmp_path: Path) -> None:
    file = tmp_path / "admin"
    _ask("ensure_admin", "--password-file", str(file))
    user = get_user_model().objects.get()
    user.set_password("chosen by a person")
    user.save()
    assert _ask("ensure_admin", "--password-file", str(file))["password"] is None
    assert authenticate(RequestFactory().post("/"), username="operator", password="chosen by a person")


def test_a_lost_file_gets_a_new_password(tmp_path: Path) -> None:
    file = tmp_path / "admin"
    first = _ask("ensure_admin", "--password-file", str(file))
    file.unlink()
    second = _ask("ensure_admin", "--password-file", str(file))
    assert second["password"] != first["password"]
    assert _opens(second)


def test_without_a_file_each_run_sets_a_password_that_works() -> None:
    assert _opens(_ask("ensure_admin"))
    assert _opens(_ask("ensure_admin"))


def test_a_person_is_made_a_member_once_with_a_password_that_is_told_once() -> None:
    _ask("ensure_account", "demo")
    first = _ask("ensure_member", "demo", "ada", "--role", "reader")
    assert authenticate(RequestFactory().post("/"), username="ada", password=first["password"])
    second = _ask("ensure_member", "demo", "ada", "--role", "owner")
    assert (second["password"], second["role"]) == (None, "owner")
    assert [(one.user.username, one.role) for one in Membership.objects.select_related("user")] == [("ada", "owner")]


@pytest.mark.parametrize(("account", "user"), [("nowhere", "ada"), ("demo", "a b"), ("demo", "n" * 151)])
def test_who_cannot_be_a_member_is_not_made(account: str, user: str) -> None:
    _ask("ensure_account", "demo")
    with pytest.raises(CommandError, match="Nobody was added"):
        call_command("ensure_member", account, user)
    assert not get_user_model().objects.exists()
