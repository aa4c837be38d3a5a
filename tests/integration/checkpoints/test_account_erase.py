"""Erasing an account: its objects, then its key, then a receipt; in any half-done state it goes on where it was."""

import json

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django.fixtures import Settings

from checkpoints_app.models import AccountKey, Checkpoint, ErasureReceipt, Manifest, Pack
from checkpoints_app.services import account_erase, key, receipt, storage
from checkpoints_app.store import StoreError, UnavailableError
from sessions_app.errors import Conflict, IntegrityFailed
from sessions_app.models import Session
from tests.store_kit import content
from tests.support import fleet
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)
STEPS = ["condemned", "object_deleted", "key_object_deleted", "key_row_deleted", "rows_deleted"]


class Died(BaseException):
    """The worker's end."""


def filled(shelf: Shelf) -> Checkpoint:
    session = shelf.session()
    first = shelf.save(session, IMAGE)
    return shelf.save(session, content(UNITS, 2), parent=first)


def sessions_deleted(shelf: Shelf) -> None:
    Session.objects.filter(account=shelf.account).update(runtime_state="deleted")


def test_nothing_of_the_account_is_left_and_the_receipt_says_what_there_was(shelf: Shelf) -> None:
    filled(shelf)
    there = list(storage.backend().list(""))
    sessions_deleted(shelf)
    signed = account_erase.erase_account(shelf.account)
    assert list(storage.backend().list("")) == []
    assert (signed.object_count, signed.stored_bytes) == (len(there), sum(one.object_bytes for one in there))
    assert signed.checkpoint_count == 2
    assert signed.key_destroyed_at is not None
    assert receipt.is_genuine(signed)
    for model in (AccountKey, Pack, Manifest):
        assert not model.objects.exists()


def test_what_the_key_has_sealed_cannot_be_read_even_from_a_copy_of_the_store(shelf: Shelf) -> None:
    row = filled(shelf)
    copies = {one.key: storage.backend().read(one.key, 0, one.object_bytes) for one in storage.backend().list("") if "/key" not in one.key}
    sessions_deleted(shelf)
    account_erase.erase_account(shelf.account)
    for name, stored in copies.items():
        storage.backend().put_if_absent(name, [stored])
    with pytest.raises(IntegrityFailed, match="no content key"):
        shelf.restore(row)
    key.keys_to_save(shelf.account.id)
    with pytest.raises(StoreError):
        shelf.restore(row)


def test_another_account_is_untouched(shelf: Shelf) -> None:
    filled(shelf)
    other = Shelf(fleet.tenant("other").account)
    kept = filled(other)
    sessions_deleted(shelf)
    account_erase.erase_account(shelf.account)
    other.assert_whole(kept)
    other.assert_exact()


def test_an_account_with_a_session_that_is_not_deleted_is_refused_and_nothing_is_erased(shelf: Shelf) -> None:
    row = filled(shelf)
    with pytest.raises(Conflict, match="not deleted"):
        account_erase.erase_account(shelf.account)
    shelf.assert_whole(row)
    assert not ErasureReceipt.objects.exists()


@pytest.mark.parametrize("step", STEPS)
def test_an_erasure_that_died_at_this_step_goes_on_and_writes_one_receipt(shelf: Shelf, step: str) -> None:
    filled(shelf)
    count = len(list(storage.backend().list("")))
    sessions_deleted(shelf)

    def die(name: str) -> None:
        if name == step:
            raise Died

    with pytest.raises(Died):
        account_erase.erase_account(shelf.account, step=die)
    assert not ErasureReceipt.objects.exclude(signature="").exists()
    signed = account_erase.erase_account(shelf.account)
    assert list(storage.backend().list("")) == []
    assert ErasureReceipt.objects.count() == 1
    assert signed.object_count == count
    assert receipt.is_genuine(signed)


def test_a_repeated_erasure_returns_the_same_receipt(shelf: Shelf) -> None:
    filled(shelf)
    sessions_deleted(shelf)
    assert account_erase.erase_account(shelf.account).id == account_erase.erase_account(shelf.account).id


def test_a_listing_that_fails_destroys_no_key_and_reports_nothing(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(shelf)
    sessions_deleted(shelf)

    def broken(prefix: str):
        raise UnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(storage.backend(), "list", broken)
        with pytest.raises(UnavailableError):
            account_erase.erase_account(shelf.account)
    assert AccountKey.objects.exists()
    assert not ErasureReceipt.objects.exclude(signature="").exists()
    account_erase.erase_account(shelf.account)
    assert list(storage.backend().list("")) == []


@pytest.mark.parametrize("change", [{"object_count": 1}, {"account_id": "another"}, {"stored_bytes": 0}])
def test_a_receipt_that_was_changed_is_not_genuine(shelf: Shelf, change: dict[str, object]) -> None:
    filled(shelf)
    sessions_deleted(shelf)
    signed = account_erase.erase_account(shelf.account)
    ErasureReceipt.objects.filter(id=signed.id).update(**change)
    signed.refresh_from_db()
    assert not receipt.is_genuine(signed)


def test_a_receipt_stays_genuine_over_an_exchange_of_the_master_key(shelf: Shelf, settings: Settings) -> None:
    filled(shelf)
    sessions_deleted(shelf)
    signed = account_erase.erase_account(shelf.account)
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS = django_settings.KEEPSTATE_MASTER_KEY
    settings.KEEPSTATE_MASTER_KEY = bytes(range(32))
    assert receipt.is_genuine(signed)
    assert receipt.sign_again() == 1
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS = None
    signed.refresh_from_db()
    assert receipt.is_genuine(signed)


def test_the_command_prints_the_receipt_and_refuses_what_it_cannot_erase(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    filled(shelf)
    for account, why in (("acct_nobody", "no account"), (shelf.account.id, "not deleted")):
        with pytest.raises(CommandError, match=why):
            call_command("erase_account", account)
    sessions_deleted(shelf)
    call_command("erase_account", shelf.account.id)
    printed = json.loads(capsys.readouterr().out)
    assert printed["account"] == shelf.account.id
    assert printed["signature"] == ErasureReceipt.objects.get().signature
