"""Values sealed for other tables: whatever becomes of the transaction that seals one, the account's key stays one and the same."""

import pytest
from django.db import transaction

from checkpoints_app.models import AccountKey, ErasureReceipt
from checkpoints_app.services import key, sealing
from checkpoints_app.services.account_erase import erase_account
from sessions_app.errors import IntegrityFailed
from tests.support.fleet import tenant
from tests.support.shelf import Shelf


def test_what_is_sealed_opens_for_its_account_alone(shelf: Shelf) -> None:
    other = tenant("other").account
    sealed = sealing.seal(shelf.account.id, b"a secret")
    sealing.seal(other.id, b"another")
    assert sealing.unseal(shelf.account.id, sealed) == b"a secret"
    with pytest.raises(IntegrityFailed):
        sealing.unseal(other.id, sealed)
    with pytest.raises(IntegrityFailed):
        sealing.unseal(shelf.account.id, sealed[:-1] + bytes([sealed[-1] ^ 1]))


def test_a_first_sealing_that_is_rolled_back_leaves_no_key_behind_that_a_save_would_meet(shelf: Shelf) -> None:
    with transaction.atomic():
        sealing.seal(shelf.account.id, b"a secret")
        transaction.set_rollback(True)
    assert not AccountKey.objects.exists()
    assert key.read_stored(shelf.account.id, 0) is None
    key.keys_to_save(shelf.account.id)


def test_a_first_sealing_that_is_committed_puts_the_key_into_the_store_and_a_save_takes_the_same(shelf: Shelf) -> None:
    with transaction.atomic():
        sealed = sealing.seal(shelf.account.id, b"a secret")
    wrapped = bytes(AccountKey.objects.get().wrapped)
    assert key.read_stored(shelf.account.id, 0) == wrapped
    key.keys_to_save(shelf.account.id)
    assert sealing.unseal(shelf.account.id, sealed) == b"a secret"


def test_a_death_between_the_commit_and_the_store_is_made_good_by_the_next_save(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = _sealed_by_one_that_died(shelf, monkeypatch)
    key.keys_to_save(shelf.account.id)
    assert key.read_stored(shelf.account.id, 0) == bytes(AccountKey.objects.get().wrapped)
    assert sealing.unseal(shelf.account.id, sealed) == b"a secret"


def test_an_account_whose_key_never_came_to_the_store_can_be_erased(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    _sealed_by_one_that_died(shelf, monkeypatch)
    erase_account(shelf.account)
    assert not AccountKey.objects.exists()
    assert ErasureReceipt.objects.get().finished_at is not None


def _sealed_by_one_that_died(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Its transaction was committed, and then it came to nothing more."""
    with monkeypatch.context() as patch, transaction.atomic():
        patch.setattr(transaction, "on_commit", lambda *_, **__: None)
        sealed = sealing.seal(shelf.account.id, b"a secret")
    assert key.read_stored(shelf.account.id, 0) is None
    return sealed
