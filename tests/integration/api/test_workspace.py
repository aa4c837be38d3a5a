"""Archives that sessions begin with: taken in, kept, given to one session, gone."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from sessions_app.models import Session, Workspace, WorkspacePart
from sessions_app.services import bounds, workspace
from sessions_app.services.steps import erase, erase_account
from tests.integration.api.test_idempotency import REPLAYED
from tests.support.api import Caller, caller, error_of, new_key
from tests.support.fleet import Tenant, session_row
from tests.support.threads import at_once
from tests.unit.archive.kit import GZIP, TAR, ZIP, gz, tar_of, zip_of

PATH = "/api/v2/workspaces"
ARCHIVE = tar_of(("src/", ""), ("src/main.py", "print('mark-of-a-customer')"))


def send(api: Caller, data: bytes = ARCHIVE, media_type: str = TAR, **headers: str) -> Any:
    sent = {"Authorization": f"Bearer {api.plain}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return api.client.generic("POST", PATH, data, content_type=media_type, headers=sent)


def uploaded(api: Caller) -> str:
    answer = send(api)
    assert answer.status_code == 201, answer.content
    return str(answer.json()["data"]["id"])


def start(api: Caller, workspace_id: str) -> Any:
    return api("POST", "/api/sessions", {"Image": "tiny", "Workspace": workspace_id})


@pytest.mark.parametrize(("data", "media_type"), [(ARCHIVE, TAR), (gz(ARCHIVE), GZIP), (zip_of(("src/main.py", "x")), ZIP)])
def test_an_archive_is_taken_in_and_told_by_its_digest(api: Caller, data: bytes, media_type: str) -> None:
    digest = hashlib.sha256(data).hexdigest()
    found = send(api, data, media_type, X_KS_Sha256=digest).json()["data"]
    assert (found["sha256"], found["size"], found["files"]) == (digest, len(data), 1)
    assert api("GET", PATH).json()["data"]["items"] == [found]


def test_what_is_kept_is_sealed_and_opens_to_a_tar_of_ours(api: Caller) -> None:
    found = Workspace.objects.get(id=uploaded(api))
    packed = b"".join(workspace.parts(found))
    assert (hashlib.sha256(packed).hexdigest(), len(packed)) == (found.stored_sha256, found.stored_bytes)
    assert packed[10:30] not in bytes(WorkspacePart.objects.get().sealed)


@pytest.mark.parametrize(
    ("data", "media_type", "headers", "status", "code"),
    [
        (ARCHIVE, "application/json", {}, 415, "ks_unsupported_media_type"),
        (ARCHIVE, TAR, {"X_KS_Sha256": "0" * 64}, 409, "ks_digest_mismatch"),
        (ARCHIVE, TAR, {"X_KS_Sha256": "abc"}, 400, "ks_invalid"),
        (ARCHIVE, TAR, {"Idempotency_Key": "short"}, 400, "ks_invalid"),
        (b"x" * 2000, TAR, {}, 400, "ks_archive_refused"),
        (tar_of(("../up", "x")), TAR, {}, 400, "ks_archive_refused"),
    ],
)
def test_what_is_no_archive_is_refused_and_nothing_is_kept(
    api: Caller, data: bytes, media_type: str, headers: Any, status: int, code: str
) -> None:
    refused = send(api, data, media_type, **headers)
    assert (refused.status_code, error_of(refused)["code"]) == (status, code)
    assert not Workspace.objects.exists()


def test_an_archive_that_is_too_large_is_refused(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WORKSPACE_BYTES", len(ARCHIVE) - 1)
    assert send(api).status_code == 413
    assert not Workspace.objects.exists()


def test_an_account_keeps_so_many_waiting_and_no_more(api: Caller, stranger: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WORKSPACES_WAITING", 1)
    first = uploaded(api)
    refused = send(api)
    assert (refused.status_code, error_of(refused)["code"], Workspace.objects.count()) == (409, "ks_quota_exceeded", 1)
    assert send(caller(stranger)).status_code == 201
    assert api("DELETE", f"{PATH}/{first}").status_code == 200
    assert send(api).status_code == 201


def test_the_bytes_of_those_that_wait_are_bounded_too(api: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WORKSPACES_WAITING_BYTES", 10)
    assert error_of(send(api))["code"] == "ks_quota_exceeded"


def test_the_same_upload_under_its_key_is_one(api: Caller) -> None:
    key = new_key()
    first, second = send(api, Idempotency_Key=key), send(api, Idempotency_Key=key)
    assert (second.json(), second[REPLAYED], Workspace.objects.count()) == (first.json(), "true", 1)
    assert error_of(send(api, gz(ARCHIVE), GZIP, Idempotency_Key=key))["code"] == "ks_idempotency_conflict"


def test_a_session_takes_it_once(api: Caller) -> None:
    found = uploaded(api)
    assert start(api, found).status_code == 202
    assert Workspace.objects.get().session_id == Session.objects.get().id
    refused = start(api, found)
    assert (refused.status_code, error_of(refused)["code"], Session.objects.count()) == (409, "ks_workspace_used", 1)
    assert api("GET", PATH).json()["data"]["items"] == []
    assert api("DELETE", f"{PATH}/{found}").status_code == 404


def test_one_that_is_unknown_anothers_or_expired_starts_nothing(api: Caller, stranger: Tenant) -> None:
    expired, others = uploaded(api), uploaded(caller(stranger))
    Workspace.objects.filter(id=expired).update(expires_at=Now() - timedelta(seconds=1))
    for named, code in ((expired, "ks_workspace_expired"), (others, "ks_not_found"), ("ws_nothing", "ks_not_found")):
        assert error_of(start(api, named))["code"] == code
    assert not Session.objects.exists()


def test_a_record_keeps_what_it_begins_with_until_it_has_its_machine_or_is_deleted(api: Caller) -> None:
    found = uploaded(api)
    assert api("POST", "/api/v2/sessions", {"image": "tiny", "workspace": found}).status_code == 201
    Workspace.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert (workspace.forget_expired(), Workspace.objects.count()) == (0, 1)
    Session.objects.update(runtime_state="failed")
    assert (workspace.forget_expired(), Workspace.objects.count()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_of_starts_at_the_same_time_one_takes_it(owner: Tenant) -> None:
    found = uploaded(caller(owner))
    answers = at_once(4, lambda _: start(caller(owner), found))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    assert Session.objects.count() == 1


def test_it_goes_when_it_expires_with_its_session_and_with_its_account(api: Caller, owner: Tenant) -> None:
    session = session_row(owner.account)
    for forget in (
        lambda found: Workspace.objects.filter(id=found).update(expires_at=Now() - timedelta(seconds=1)) and workspace.forget_expired(),
        lambda found: Workspace.objects.filter(id=found).update(session_id=session.id) and [step(session) for step in erase],
        lambda _: workspace.erase_account(owner.account),
    ):
        found = uploaded(api)
        assert workspace.forget_expired() == 0
        forget(found)
        assert (Workspace.objects.count(), WorkspacePart.objects.count()) == (0, 0)
    assert workspace.erase_account in list(erase_account)
