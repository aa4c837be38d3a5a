"""Rates of tokens, accounts and addresses, counted in a real Redis."""

import logging
from typing import Any

import pytest
import redis
from django.test import Client

from sessions_app.errors import Throttled
from sessions_app.models import Session
from sessions_app.roles import Role
from sessions_app.services import silence, throttle
from sessions_app.services import token as tokens
from sessions_app.services.silence import Silence
from sessions_app.services.throttle import Bucket
from tests.support.api import Caller, caller, error_of
from tests.support.fleet import Tenant
from tests.support.people import member
from tests.support.threads import at_once

WORDS = "requests are not throttled: Redis does not answer"


@pytest.fixture(autouse=True)
def counted(redis_url: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty Redis, and a process that has not met it before."""
    redis.Redis.from_url(redis_url).flushall()
    settings.REDIS_URL = redis_url
    settings.KEEPSTATE_RATE_TOKEN = settings.KEEPSTATE_RATE_ACCOUNT = settings.KEEPSTATE_RATE_ADDRESS = 0
    _forget(monkeypatch)
    yield settings
    throttle._spend.cache_clear()


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle._spend.cache_clear()
    monkeypatch.setattr(throttle, "_silence", Silence(WORDS))


def _is_throttled(response: Any) -> bool:
    return (
        response.status_code == 429
        and error_of(response)["code"] == "ks_throttled"
        and int(response["Retry-After"]) == error_of(response)["retry_after_seconds"] > 0
    )


def test_a_token_beyond_its_rate_is_refused_with_the_time_to_wait_and_does_nothing(counted: Any, api: Caller, owner: Tenant) -> None:
    counted.KEEPSTATE_RATE_TOKEN = 2
    assert [api("GET", "/api/whoami").status_code for _ in range(2)] == [200, 200]
    refused = api("POST", "/api/sessions", {"Image": "tiny"})
    assert _is_throttled(refused)
    assert 20 < int(refused["Retry-After"]) <= 30, "half a minute for each, less what has passed since"
    assert not Session.objects.exists()
    _, other = tokens.issue(owner.account, "other")
    assert Caller(other)("GET", "/api/whoami").status_code == 200


def test_all_tokens_of_an_account_share_its_rate_and_another_account_has_its_own(
    counted: Any, api: Caller, owner: Tenant, stranger: Tenant
) -> None:
    counted.KEEPSTATE_RATE_ACCOUNT = 1
    _, other = tokens.issue(owner.account, "other")
    assert api("GET", "/api/whoami").status_code == 200
    assert _is_throttled(Caller(other)("GET", "/api/v2/sessions"))
    assert caller(stranger)("GET", "/api/whoami").status_code == 200


def test_wrong_tokens_are_bounded_by_address_and_lock_no_right_one_out(counted: Any, api: Caller) -> None:
    counted.KEEPSTATE_RATE_ADDRESS = 2
    wrong = Caller("ks_wrong")
    assert [wrong("GET", "/api/whoami").status_code for _ in range(2)] == [401, 401]
    assert _is_throttled(wrong("GET", "/api/whoami"))
    assert _is_throttled(Caller(None)("GET", "/api/whoami"))
    assert api("GET", "/api/whoami").status_code == 200
    assert Client(REMOTE_ADDR="192.0.2.9").get("/api/whoami").status_code == 401


@pytest.mark.parametrize("path", ["/api/device/code", "/api/device/token"])
def test_a_terminals_sign_in_is_bounded_by_address(counted: Any, owner: Tenant, path: str) -> None:
    counted.KEEPSTATE_RATE_ADDRESS = 1
    body = {"device_code": "unknown"} if path.endswith("token") else {}

    def ask(address: str) -> Any:
        return Client(REMOTE_ADDR=address).post(path, body, content_type="application/json")

    assert ask("2001:db8::1").status_code != 429
    assert _is_throttled(ask("2001:db8::ffff"))  # of the same /64
    assert ask("2001:db8:0:1::1").status_code != 429


@pytest.mark.parametrize("path", ["/device/login", "/admin/login/"])
def test_passwords_are_bounded_by_address_whatever_the_name(counted: Any, owner: Tenant, path: str) -> None:
    counted.KEEPSTATE_RATE_ADDRESS = 2
    answers = [Client().post(path, {"username": f"name {number}", "password": "the same"}) for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert "tried too often" in answers[-1].content.decode()
    assert Client().get(path).status_code == 200


def test_short_codes_are_bounded_by_whoever_tries_them(counted: Any, owner: Tenant) -> None:
    counted.KEEPSTATE_RATE_ADDRESS = 1
    browser = Client()
    browser.force_login(member(owner.account, "ada", Role.OWNER).user)
    answers = [browser.get("/device", {"user_code": "BBBB-BBBB"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [404, 429]
    assert int(answers[-1]["Retry-After"]) > 0


def test_a_refused_request_counts_in_no_bucket(redis_url: str) -> None:
    full, empty = Bucket("full", 1, "One"), Bucket("empty", 1, "Another")
    throttle.require([full])
    for _ in range(3):
        with pytest.raises(Throttled, match=r"^One has asked"):
            throttle.require([empty, full])
    throttle.require([empty])


def test_a_bucket_leaks_and_leaves_nothing_behind(redis_url: str) -> None:
    server = redis.Redis.from_url(redis_url)
    throttle.require([Bucket("slow", 2, "One")])
    assert 0 < server.pttl("ks:rate:slow") <= 30_000
    server.decrby("ks:rate:slow", 30_000_000)  # as if half a minute had passed
    for _ in range(2):
        throttle.require([Bucket("slow", 2, "One")])
    with pytest.raises(Throttled):
        throttle.require([Bucket("slow", 2, "One")])


def test_a_request_is_one_command_to_redis_whatever_it_counts_in(counted: Any, redis_url: str, api: Caller) -> None:
    counted.KEEPSTATE_RATE_TOKEN = counted.KEEPSTATE_RATE_ACCOUNT = 1000
    api("GET", "/api/whoami")  # the script is loaded
    server = redis.Redis.from_url(redis_url)
    server.config_resetstat()
    api("GET", "/api/whoami")
    calls = {
        name: one["calls"] for name, one in server.info("commandstats").items() if name not in ("cmdstat_config|resetstat", "cmdstat_info")
    }
    assert calls.pop("cmdstat_evalsha") == 1
    assert set(calls) <= {"cmdstat_time", "cmdstat_get", "cmdstat_set"}  # of the script itself


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_moment_do_not_pass_the_rate_together(counted: Any, owner: Tenant) -> None:
    counted.KEEPSTATE_RATE_TOKEN = 3
    answers = at_once(8, lambda _: caller(owner)("GET", "/api/whoami").status_code)
    assert sorted(answers) == [200] * 3 + [429] * 5


def test_without_redis_requests_pass_and_the_log_says_so_once(
    counted: Any, api: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted.REDIS_URL = "unix:///nowhere/redis.sock"
    counted.KEEPSTATE_RATE_TOKEN = 1
    _forget(monkeypatch)
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.0)  # each of them asks again
    with caplog.at_level(logging.WARNING):
        assert [api("GET", "/api/whoami").status_code for _ in range(4)] == [200] * 4
    assert [record.getMessage() for record in caplog.records if "throttled" in record.getMessage()] == [WORDS]


def test_a_redis_that_did_not_answer_is_left_alone_for_a_while(
    counted: Any, redis_url: str, api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted.REDIS_URL = "unix:///nowhere/redis.sock"
    counted.KEEPSTATE_RATE_TOKEN = 1
    _forget(monkeypatch)
    monkeypatch.setattr(silence, "SILENT_SECONDS", 3600.0)
    api("GET", "/api/whoami")
    counted.REDIS_URL = redis_url
    throttle._spend.cache_clear()
    assert api("GET", "/api/whoami").status_code == 200
    assert redis.Redis.from_url(redis_url).keys() == []
