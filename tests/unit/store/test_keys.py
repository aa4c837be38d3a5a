"""Account keys: wrapped, derived, never shown."""

import logging
import pickle
import traceback

import pytest

from checkpoints_app.store import AccountKeys, IntegrityError, SecretKey, derive_keys, unwrap_root_key, wrap_root_key

MASTER = SecretKey(b"M" * 32)
ROOT = SecretKey(b"R" * 32)


def test_a_wrapped_root_key_opens_with_its_master_key():
    assert unwrap_root_key(MASTER, "acct", wrap_root_key(MASTER, "acct", ROOT)).reveal() == ROOT.reveal()


def test_wrapping_twice_gives_two_texts():
    assert wrap_root_key(MASTER, "acct", ROOT) != wrap_root_key(MASTER, "acct", ROOT)


def test_another_master_key_or_account_does_not_open_it():
    wrapped = wrap_root_key(MASTER, "acct", ROOT)
    for master, account in ((SecretKey(b"N" * 32), "acct"), (MASTER, "acct2")):
        with pytest.raises(IntegrityError, match=account):
            unwrap_root_key(master, account, wrapped)


def test_every_flipped_bit_and_every_cut_is_refused():
    wrapped = wrap_root_key(MASTER, "acct", ROOT)
    flipped = [wrapped[:at] + bytes([wrapped[at] ^ 1 << at % 8]) + wrapped[at + 1 :] for at in range(len(wrapped))]
    for damaged in [*flipped, *(wrapped[:end] for end in range(len(wrapped))), wrapped + b"\0"]:
        with pytest.raises(IntegrityError):
            unwrap_root_key(MASTER, "acct", damaged)


def test_derived_keys_differ_from_each_other_and_from_the_root():
    keys = derive_keys(ROOT)
    assert len({ROOT.reveal(), keys.id_key.reveal(), keys.pack_key.reveal(), keys.manifest_key.reveal()}) == 4
    assert derive_keys(ROOT).id_key.reveal() == keys.id_key.reveal()


def test_no_text_about_keys_contains_them(caplog):
    keys = derive_keys(ROOT)
    secrets = [key.reveal() for key in (ROOT, keys.id_key, keys.pack_key, keys.manifest_key)]
    try:
        unwrap_root_key(ROOT, "acct", wrap_root_key(MASTER, "acct", ROOT))
    except IntegrityError as error:
        summary = traceback.TracebackException.from_exception(error, capture_locals=False)
        logging.getLogger("test").error("keys %r %s", keys, ROOT, exc_info=error)
        text = "".join(summary.format()) + caplog.text + repr(keys) + str(ROOT) + f"{keys}"
    for secret in secrets:
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text


def test_keys_are_not_pickled():
    for keys in (ROOT, derive_keys(ROOT)):
        assert isinstance(keys, SecretKey | AccountKeys)
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(keys)


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        SecretKey(b"short")
