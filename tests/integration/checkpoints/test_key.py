"""Account keys in the database and in the store, and the exchange of the master key."""

import os

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django.fixtures import Settings

from checkpoints_app.models import AccountKey
from checkpoints_app.services import key, storage
from checkpoints_app.store.names import account_key_key
from sessions_app.errors import IntegrityFailed
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)


class Died(BaseException):
    """The worker's end."""


def exchanged(settings: Settings) -> bytes:
    """A new master key is set, the old one is the previous; returns the old one."""
    old: bytes = settings.KEEPSTATE_MASTER_KEY
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS, settings.KEEPSTATE_MASTER_KEY = old, os.urandom(32)
    return old


def stored_wrappings(shelf: Shelf) -> list[int]:
    return sorted(name.generation for name in shelf.object_names() if name.word == "key")


def test_the_wrapping_is_durable_in_the_store_before_anything_is_saved(shelf: Shelf) -> None:
    key.keys_to_save(shelf.account.id)
    row = AccountKey.objects.get(account=shelf.account)
    assert key.read_stored(shelf.account.id, 0) == bytes(row.wrapped)


def test_a_wrapping_that_is_missing_in_the_store_is_put_at_the_next_save(shelf: Shelf) -> None:
    key.keys_to_save(shelf.account.id)
    storage.backend().delete(account_key_key(shelf.account.id, 0))
    key.keys_to_save(shelf.account.id)
    assert stored_wrappings(shelf) == [0]


def test_a_store_with_another_key_for_the_account_is_not_saved_into(shelf: Shelf) -> None:
    key.keys_to_save(shelf.account.id)
    AccountKey.objects.all().delete()
    with pytest.raises(IntegrityFailed, match="another content key"):
        key.keys_to_save(shelf.account.id)


def test_after_the_exchange_the_old_master_key_opens_nothing_and_all_content_reads(shelf: Shelf, settings: Settings) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    old = exchanged(settings)
    shelf.assert_whole(row)  # while the exchange goes on, both open
    call_command("rotate_master_key")
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS = None
    shelf.assert_whole(row)
    assert stored_wrappings(shelf) == [1]
    settings.KEEPSTATE_MASTER_KEY = old
    with pytest.raises(IntegrityFailed, match="does not open"):
        shelf.restore(row)


@pytest.mark.parametrize("step", ["key_object_durable", "key_row_moved", "key_object_deleted"])
def test_an_exchange_that_died_at_this_step_leaves_all_readable_and_is_done_again(shelf: Shelf, settings: Settings, step: str) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    exchanged(settings)

    def die(name: str) -> None:
        if name == step:
            raise Died

    with pytest.raises(Died):
        key.rotate(step=die)
    shelf.assert_whole(row)
    key.rotate()
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS = None
    shelf.assert_whole(row)
    assert stored_wrappings(shelf) == [1]


def test_a_key_that_neither_opens_is_named_and_left_as_it_is(shelf: Shelf, settings: Settings) -> None:
    key.keys_to_save(shelf.account.id)
    wrapped = bytes(AccountKey.objects.get().wrapped)
    settings.KEEPSTATE_MASTER_KEY, settings.KEEPSTATE_MASTER_KEY_PREVIOUS = os.urandom(32), os.urandom(32)
    with pytest.raises(CommandError, match=shelf.account.id):
        call_command("rotate_master_key")
    assert bytes(AccountKey.objects.get().wrapped) == wrapped
    assert stored_wrappings(shelf) == [0]


def test_an_exchange_that_is_repeated_changes_nothing(shelf: Shelf, settings: Settings) -> None:
    key.keys_to_save(shelf.account.id)
    exchanged(settings)
    assert key.rotate().rewrapped == 1
    assert (key.rotate().rewrapped, stored_wrappings(shelf)) == (0, [1])


def test_a_save_beside_an_exchange_does_not_put_the_old_wrapping_back(
    shelf: Shelf, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read the account's row before; the old master key would open the object that it puts."""
    row = shelf.save(shelf.session(), IMAGE)
    exchanged(settings)
    right, rotated = key.read_stored, list[key.Rotated]()

    def after_the_exchange(account_id: str, generation: int) -> bytes | None:
        if not rotated:
            rotated.append(key.Rotated(0, 0))
            key.rotate()
        return right(account_id, generation)

    monkeypatch.setattr(key, "read_stored", after_the_exchange)
    key.keys_to_save(shelf.account.id)
    assert stored_wrappings(shelf) == [1]
    settings.KEEPSTATE_MASTER_KEY_PREVIOUS = None
    shelf.assert_whole(row)
