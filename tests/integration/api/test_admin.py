"""The admin shows rows and changes none behind a service's back; it shows no secret and costs no query per row."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints_app.models import Checkpoint, ErasureReceipt, Manifest, OrphanObject, Pack, Sweep
from checkpoints_app.services import pin as pins
from gateway_app.models import AccountBudget, Call, EgressSum, ProviderKey, SessionBudget, UsageEntry
from sessions_app.admin.paging import MOST_ROWS
from sessions_app.models import (
    Account,
    AccountDeletion,
    AccountQuota,
    ApiToken,
    DeviceGrant,
    IdlePolicy,
    Membership,
    RecoveryPolicy,
    RetentionPolicy,
    SavePolicy,
    Session,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.roles import Role
from sessions_app.services import record
from sessions_app.services import token as tokens
from sessions_app.states import RecordKind
from tests.support.fleet import Tenant, boot_asked, checkpoint_row, session_row
from workers.models import Host, HostPin, HostRelay
from workers.relay import proof, trust

MOST_QUERIES = 8
OURS = [model for model in admin.site._registry if model._meta.app_label in ("sessions_app", "checkpoints_app", "gateway_app", "workers")]


@pytest.fixture
def rows(owner: Tenant) -> Tenant:
    _more(owner, 0)
    return owner


def _more(owner: Tenant, number: int) -> None:
    boot_asked(owner.account)
    session = session_row(owner.account)
    checkpoint_row(session)
    AccountDeletion.objects.create(account_id=f"acct_{number}", secret_digest="secret receipt", actor="a", due_at=Now())
    AccountQuota.objects.get_or_create(account=owner.account)
    SavePolicy.objects.create(session=session)
    IdlePolicy.objects.create(session=session)
    RecoveryPolicy.objects.create(session=session)
    tokens.issue(owner.account, "another")
    Pack.objects.create(id=f"{number:064d}", account=owner.account, stored_bytes=1, unit_count=1, units=b"")
    Manifest.objects.create(id=f"{number:064d}", account=owner.account, stored_bytes=1)
    OrphanObject.objects.create(key=f"accounts/a/packs/{number:064d}", object_bytes=1)
    ErasureReceipt.objects.create(account_id=f"acct_{number}")
    Sweep.objects.create(name=f"sweep {number}")
    record.write(RecordKind.LIFECYCLE, "session.created", account_id=owner.account.id)
    user = User.objects.create(username=f"user {number}")
    Membership.objects.create(user=user, account=owner.account, role=Role.OWNER)
    digests = {"device_digest": f"secret device {number}", "user_digest": f"secret user {number}"}
    DeviceGrant.objects.create(account=owner.account, user=user, expires_at=Now(), **digests)
    RetentionPolicy.objects.create(account=owner.account, session=session)
    hook = WebhookEndpoint.objects.create(account=owner.account, url="https://example.com", secret=b"secret hook")
    ProviderKey.objects.create(account=owner.account, provider="openai", last4="0042", secret=b"secret key")
    call = Call.objects.create(account=owner.account, session=session, epoch=1, started=number, provider="openai", headers=["secret head"])
    UsageEntry.objects.create(account=owner.account, session=session, epoch=1, call=call, served="upstream", billed=True)
    SessionBudget.objects.create(session=session)
    EgressSum.objects.create(session=session)
    AccountBudget.objects.get_or_create(account=owner.account)
    WebhookDelivery.objects.create(id=f"msg_{number}", endpoint=hook, event_type="session.created", body="secret body")


def _list(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def _first(model: Any) -> Any:
    return model.objects.first()


def _page(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(_first(model).pk)])


def test_every_kind_of_row_is_there() -> None:
    names = {model.__name__ for model in OURS}
    of_sessions = {
        "Account",
        "ApiToken",
        "Session",
        "Operation",
        "SessionEvent",
        "SavePolicy",
        "IdlePolicy",
        "RecoveryPolicy",
        "ServiceRecord",
    }
    of_accounts = {"AccountDeletion", "AccountQuota", "Membership", "DeviceGrant", "RetentionPolicy", "WebhookEndpoint", "WebhookDelivery"}
    of_the_store = {"Image", "Pin", "Checkpoint", "Pack", "Manifest", "OrphanObject", "ErasureReceipt", "Sweep"}
    of_the_gateway = {"ProviderKey", "Call", "UsageEntry", "SessionBudget", "AccountBudget", "EgressSum"}
    assert names == of_sessions | of_accounts | of_the_store | of_the_gateway | {"Host"}


def test_lists_search_and_pages_of_rows_open_and_show_no_secret(rows: Tenant, admin_client: Client) -> None:
    for model in OURS:
        assert admin_client.get(_list(model), {"q": "owner"}).status_code == 200, model
        page = admin_client.get(_page(model))
        assert page.status_code == 200, model
        assert rows.token.digest not in page.content.decode()
        assert rows.plain not in page.content.decode()
        assert not re.search("secret (?:device|user|hook|body|receipt|key|head)", page.content.decode()), model


def test_rows_are_neither_added_nor_changed_nor_deleted(rows: Tenant, admin_client: Client) -> None:
    for model in OURS:
        base, key = f"admin:{model._meta.app_label}_{model._meta.model_name}", quote(_first(model).pk)
        assert admin_client.get(reverse(f"{base}_add")).status_code == 403, model
        assert admin_client.post(reverse(f"{base}_change", args=[key]), {"name": "changed"}).status_code == 403, model
        assert admin_client.post(reverse(f"{base}_delete", args=[key]), {"post": "yes"}).status_code == 403, model


@pytest.mark.usefixtures("heard_of")
def test_a_list_costs_the_same_queries_for_few_rows_and_for_many_and_counts_no_more_than_it_pages_through(
    rows: Tenant, admin_client: Client
) -> None:
    def queries(model: Any) -> list[str]:
        with CaptureQueriesContext(connection) as seen:
            admin_client.get(_list(model))
        return [one["sql"] for one in seen]

    few = {model: len(queries(model)) for model in OURS}
    for number in range(1, 31):
        _more(rows, number)
    for model in OURS:
        asked = queries(model)
        assert len(asked) == few[model] <= MOST_QUERIES, asked
        counts = [sql for sql in asked if "COUNT(" in sql]
        assert len(counts) == 1, counts
        assert f"LIMIT {MOST_ROWS + 1}" in counts[0]


def test_what_a_customer_ran_and_what_it_printed_is_not_shown(rows: Tenant, admin_client: Client) -> None:
    operation = boot_asked(rows.account)
    type(operation).objects.filter(id=operation.id).update(parameters={"argv": ["private words"]}, response={"output": "private output"})
    page = admin_client.get(reverse("admin:sessions_app_operation_change", args=[quote(operation.id)])).content.decode()
    assert operation.id in page
    assert "private" not in page


def test_chosen_tokens_are_revoked(rows: Tenant, admin_client: Client) -> None:
    admin_client.post(_list(ApiToken), {"action": "revoke", "_selected_action": [rows.token.pk]})
    assert ApiToken.objects.get(pk=rows.token.pk).revoked_at is not None
    assert ApiToken.objects.filter(revoked_at=None).exists()


def test_an_operator_sees_at_a_checkpoint_which_hosts_can_resume_it_and_why_the_others_cannot(rows: Tenant, admin_client: Client) -> None:
    checkpoint = Checkpoint.objects.first()
    assert checkpoint is not None
    devices = "x" * 1000
    other = Host.objects.create(id="h-<other>", memory_bytes=1, cpus=1, boot_id="b")
    HostPin.objects.create(host=other, pin=pins.record("x86_64", {"hypervisor": "another", "devices": devices + "balloon"}))
    page = admin_client.get(reverse("admin:checkpoints_app_checkpoint_change", args=[quote(checkpoint.pk)])).content.decode()
    assert "1 of 2 hosts can resume it now." in page
    assert "h-&lt;other&gt;" in page
    assert "<b>hypervisor</b>: test ≠ another" in page
    assert devices not in page


def test_a_hosts_page_tells_that_its_relay_would_refuse_this_web_process(rows: Tenant, admin_client: Client) -> None:
    host = Host.objects.get()
    relay = HostRelay.objects.create(host=host, address="192.0.2.2", port=8791, fingerprint="ab" * 32)
    url = reverse("admin:workers_host_change", args=[quote(host.pk)])
    assert "another master key" in admin_client.get(url).content.decode()
    relay.key_marks = [proof.mark(trust.master_keys()[0], relay.fingerprint)]
    relay.save()
    assert "192.0.2.2:8791" in (page := admin_client.get(url).content.decode())
    assert "another master key" not in page


def test_pages_run_no_script_but_the_servers_own_files_and_only_the_admins_may_make_functions(rows: Tenant, admin_client: Client) -> None:
    for url in (reverse("admin:index"), _list(ApiToken), _page(ApiToken)):
        answer = admin_client.get(url)
        assert "script-src 'self' 'unsafe-eval'" in answer["Content-Security-Policy"]
        page = answer.content.decode()
        assert page.count("<script") == len(re.findall(r'<script[^>]* src="/(?:static|admin)/', page)) > 0
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "unsafe-eval" not in admin_client.get("/healthz")["Content-Security-Policy"]


@pytest.mark.parametrize("text", ["x" * 5000, "%", "'"])
def test_a_search_for_anything_finds_what_begins_so_and_nothing_else(rows: Tenant, admin_client: Client, text: str) -> None:
    answer = admin_client.get(_list(Session), {"q": text})
    assert answer.status_code == 200
    assert list(answer.context["cl"].result_list) == []


def test_a_session_is_found_by_how_its_id_its_name_or_its_accounts_name_begins(rows: Tenant, admin_client: Client) -> None:
    session = session_row(rows.account, name="planner")
    other = session_row(Account.objects.create(name="another"), name="another-one")
    for text in (session.short_id, session.record_id, "plan"):
        assert list(admin_client.get(_list(Session), {"q": text}).context["cl"].result_list) == [session]
    assert set(admin_client.get(_list(Session), {"q": "another"}).context["cl"].result_list) == {other}
    assert session in admin_client.get(_list(Session), {"q": "owner"}).context["cl"].result_list


def test_no_list_is_sorted_by_a_column_without_an_index_whatever_the_address_asks(rows: Tenant, admin_client: Client) -> None:
    with CaptureQueriesContext(connection) as seen:
        assert admin_client.get(_list(Session), {"o": "-5.3"}).status_code == 200
    listed = [one["sql"] for one in seen if "ORDER BY" in one["sql"] and "sessions_app_session" in one["sql"]]
    assert len(listed) == 1
    assert 'ORDER BY "sessions_app_session"."last_activity_at" DESC, "sessions_app_session"."id" DESC' in listed[0]
