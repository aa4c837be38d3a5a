"""A name is locked for the address that fails with it, at the admin's login and at the terminal page's alike."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests.support.people import PASSWORD

LOGINS = ["/admin/login/", "/device/login"]
WRONG = "not-the-password"
LIMIT: int = getattr(settings, "AXES_FAILURE_LIMIT")  # noqa: B009  the settings' stubs do not know it


@pytest.fixture(autouse=True)
def ada(db: None) -> Any:
    return get_user_model().objects.create_user("ada", password=PASSWORD, is_staff=True)


def _try(path: str, password: str, *, name: str = "ada", address: str = "192.0.2.1") -> Any:
    return Client(REMOTE_ADDR=address).post(path, {"username": name, "password": password})


def _fail(path: str, times: int) -> Any:
    return [_try(path, WRONG) for _ in range(times)][-1]


@pytest.mark.parametrize("path", LOGINS)
def test_after_some_failures_the_right_password_does_not_help_either_and_the_page_says_so(path: str) -> None:
    last = _fail(path, LIMIT)
    assert (last.status_code, last["Retry-After"]) == (429, "900")
    locked = _try(path, PASSWORD)
    assert (locked.status_code, "locked from your address" in locked.content.decode()) == (429, True)


def test_failures_at_both_logins_count_together() -> None:
    _fail(LOGINS[0], LIMIT - 1)
    assert _fail(LOGINS[1], 1).status_code == 429
    assert _try(LOGINS[0], PASSWORD).status_code == 429


def test_the_name_is_not_locked_elsewhere_nor_another_name_here() -> None:
    _fail(LOGINS[1], LIMIT)
    assert _try(LOGINS[1], PASSWORD, address="192.0.2.2").status_code == 302
    get_user_model().objects.create_user("bob", password=PASSWORD)
    assert _try(LOGINS[1], PASSWORD, name="bob").status_code == 302


def test_a_lock_ends_by_itself_and_by_the_operators_command() -> None:
    _fail(LOGINS[1], LIMIT)
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert _try(LOGINS[1], PASSWORD).status_code == 302
    _fail(LOGINS[1], LIMIT)
    call_command("axes_reset_username", "ada")
    assert _try(LOGINS[1], PASSWORD).status_code == 302


def test_a_success_forgets_the_failures_before_it() -> None:
    for _ in range(3):
        _fail(LOGINS[1], LIMIT - 1)
        assert _try(LOGINS[1], PASSWORD).status_code == 302


def test_neither_log_nor_table_holds_what_was_typed_as_a_password(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        _fail(LOGINS[0], LIMIT)
        _try(LOGINS[1], PASSWORD, name=WRONG)  # as a name, by mistake
        _try(LOGINS[1], PASSWORD, address="192.0.2.2")
    told = " ".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name != "django.db.backends")
    assert WRONG not in told
    assert PASSWORD not in told
    kept = str(list(AccessAttempt.objects.exclude(username=WRONG).values()))
    assert "ada" in kept
    assert WRONG not in kept
    assert PASSWORD not in kept
