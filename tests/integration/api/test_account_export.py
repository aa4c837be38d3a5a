"""The account's export: every record of one moment, no secret, and a last line that says that it is whole."""

import gc
import json
from typing import Any

import pytest

from sessions_app.models import Session
from sessions_app.services import account_export, steps
from sessions_app.services import token as tokens
from sessions_app.services.operation import Asked
from tests.support.api import Caller, read
from tests.support.fleet import Tenant, boot_asked, session_row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nobody_else_exports() -> None:
    """Answers that other tests have not read keep their places until they are collected."""
    gc.collect()


def exported(api: Caller) -> list[dict[str, Any]]:
    answer = api("GET", "/api/v2/account/export")
    assert answer.status_code == 200
    return [json.loads(line) for line in read(answer).splitlines()]


@pytest.fixture
def account(transactional_db: None, owner: Tenant) -> Tenant:
    parent = session_row(owner.account, saved=True, name="parent")
    session_row(owner.account, parent_id=parent.id)
    boot_asked(owner.account, Asked("POST", "/api/sessions", "ksop_" + "b" * 32))
    return owner


def test_it_has_every_record_of_the_account_and_of_no_other(api: Caller, account: Tenant, stranger: Tenant) -> None:
    session_row(stranger.account, name="strangers")
    rows = exported(api)
    kinds = {row["type"] for row in rows}
    assert {"account", "token", "session", "fork", "event", "operation", "checkpoint", "end"} <= kinds
    assert rows[-1] == {"type": "end", "rows": len(rows) - 2}
    assert rows[0]["data"]["account_id"] == account.account.id
    assert {row["data"]["id"] for row in rows if row["type"] == "session"} == set(account.account.sessions.values_list("id", flat=True))
    assert "strangers" not in json.dumps(rows)


def test_no_secret_is_in_it(api: Caller, account: Tenant) -> None:
    text = json.dumps(exported(api))
    assert account.plain not in text
    assert tokens.digest(account.plain) not in text


def test_it_is_of_one_moment_whatever_happens_while_it_is_sent(api: Caller, account: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written between two lines comes from another connection, as another request's would."""
    from tests.support.threads import at_once

    before = Session.objects.filter(account=account.account).count()
    rows_of = account_export.rows_of

    def with_another_request_between(one: Any) -> Any:
        for row in rows_of(one):
            if row[0] == "account":
                at_once(1, lambda _: session_row(account.account))
            yield row

    monkeypatch.setattr(steps.export_account, "_steps", [with_another_request_between])
    rows = exported(api)
    assert len([row for row in rows if row["type"] == "session"]) == before
    assert Session.objects.filter(account=account.account).count() == before + 1


def test_one_that_is_cut_has_no_last_line_and_frees_its_place(api: Caller, account: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: Any) -> Any:
        yield "account", {"name": "x" * 70_000}
        raise RuntimeError("the database went away")

    with monkeypatch.context() as patch:
        patch.setattr(steps.export_account, "_steps", [breaks])
        for _ in range(3):
            with pytest.raises(RuntimeError):
                read(api("GET", "/api/v2/account/export"))
    assert exported(api)[-1]["type"] == "end"
