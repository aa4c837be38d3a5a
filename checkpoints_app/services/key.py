"""Account keys: made at an account's first save, kept wrapped by the service's master key, in the database and beside the content.

The wrapping lies in the store too (`accounts/<id>/key`), so that the store and the master key alone restore everything. An object never
changes: a new wrapping is the next generation, durable before the row says it, and only then the one before it is deleted.
"""

from dataclasses import dataclass
from functools import partial

from blake3 import blake3
from django.conf import settings
from django.db import transaction

from checkpoints_app.models import AccountKey, Pack
from checkpoints_app.services import storage
from checkpoints_app.store import (
    AccountKeys,
    IntegrityError,
    MissingObjectError,
    ObjectExistsError,
    SecretKey,
    derive_keys,
    unwrap_root_key,
    wrap_root_key,
)
from checkpoints_app.store.backends.backend import Step, no_step
from checkpoints_app.store.names import account_key_key
from sessions_app.errors import IntegrityFailed

_RECEIPT_CONTEXT = "KeepState erasure receipt v1: signing key"
_ROWS_CONTEXT = "KeepState rows v1: seal key"
_READ_BYTES = 256  # more than a wrapping has


def keys_to_save(account_id: str) -> AccountKeys:
    """The account's keys, drawn if it has none; their wrapping is durable in the store at return. Two first saves at once end with one key.

    Raises BackendError, or IntegrityFailed if the key cannot be opened or the store holds another for this account: nothing may be saved.
    """
    row, _ = _row(account_id)
    root = _opened(row)
    _ensure_stored(row, root)
    return derive_keys(root)


def _row(account_id: str) -> tuple[AccountKey, bool]:
    """The account's row, and whether it was made now."""
    wrapped = wrap_root_key(master_keys()[0], account_id, SecretKey.random())
    return AccountKey.objects.get_or_create(account_id=account_id, defaults={"wrapped": wrapped})


def keys_to_read(account_id: str) -> AccountKeys:
    """The account's keys. Raises IntegrityFailed if they were destroyed or cannot be opened: nothing of the account can be read then."""
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is None:
        raise _no_key()
    return derive_keys(_opened(row))


def rows_key(account_id: str) -> bytes:
    """32 bytes that open what other tables hold of the account; gone with the account's key. Raises as `keys_to_read`."""
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is None:
        raise _no_key()
    return _rows_key(row)


def rows_key_to_seal(account_id: str) -> bytes:
    """The same; drawn if the account has no key yet, in the caller's transaction. Raises IntegrityFailed if it cannot be opened.

    The store gets its wrapping only after the commit: an object of a key that was rolled back would keep the account from every save.
    If that does not come about, the next save does it.
    """
    row, made = _row(account_id)
    if made:
        transaction.on_commit(partial(keys_to_save, account_id), robust=True)
    return _rows_key(row)


def _rows_key(row: AccountKey) -> bytes:
    return blake3(_opened(row).reveal(), derive_key_context=_ROWS_CONTEXT).digest()


def _no_key() -> IntegrityFailed:
    return IntegrityFailed(
        "The account has no content key: nothing of it can be read. Nothing was started.", next_action="Tell the operator."
    )


def _opened(row: AccountKey) -> SecretKey:
    """A master key that does not fit says nothing about what is stored: it is the installation that is wrong."""
    try:
        return unwrap(row.account_id, bytes(row.wrapped))
    except IntegrityError as error:
        raise IntegrityFailed(
            "The account's content key does not open with this service's master key: nothing of it can be read or saved. "
            "No stored content was judged or changed.",
            next_action="Tell the operator: KEEPSTATE_MASTER_KEY is not the one under which the account's key was wrapped.",
        ) from error


def master_keys() -> list[SecretKey]:
    """The master key; and, while it is being exchanged, the one before it, which only opens."""
    previous: bytes | None = settings.KEEPSTATE_MASTER_KEY_PREVIOUS
    return [SecretKey(settings.KEEPSTATE_MASTER_KEY), *([SecretKey(previous)] if previous else [])]


def unwrap(account_id: str, wrapped: bytes) -> SecretKey:
    """Raises IntegrityError if neither the master key nor the previous one opens it."""
    current, *previous = master_keys()
    try:
        return unwrap_root_key(current, account_id, wrapped)
    except IntegrityError:
        if not previous:
            raise
    return unwrap_root_key(previous[0], account_id, wrapped)


def master_key_fits() -> bool | None:
    """Whether the master key opens the newest of the accounts' keys, which any host may have made; None while there is none."""
    newest = AccountKey.objects.order_by("-created_at").first()
    if newest is None:
        return None
    try:
        unwrap(newest.account_id, bytes(newest.wrapped))
    except IntegrityError:
        return False
    return True


def receipt_keys() -> list[bytes]:
    """What receipts are signed with: derived from the master keys, the current one first."""
    return [blake3(master.reveal(), derive_key_context=_RECEIPT_CONTEXT).digest() for master in master_keys()]


def read_stored(account_id: str, generation: int) -> bytes | None:
    """The wrapping in the store, or None."""
    try:
        return storage.backend().read(account_key_key(account_id, generation), 0, _READ_BYTES)
    except MissingObjectError:
        return None


def _ensure_stored(row: AccountKey, root: SecretKey) -> None:
    found = read_stored(row.account_id, row.generation)
    if found is None:
        if Pack.objects.filter(account_id=row.account_id).exists():
            storage.require_present(row.account_id)
        else:
            storage.require_known()
        try:
            storage.backend().put_if_absent(account_key_key(row.account_id, row.generation), [bytes(row.wrapped)])
        except ObjectExistsError:
            found = read_stored(row.account_id, row.generation)
        if AccountKey.objects.filter(account_id=row.account_id, generation__gt=row.generation).exists():
            storage.delete_object(account_key_key(row.account_id, row.generation))  # a rotation had removed it
    if found is not None and found != bytes(row.wrapped) and not _is_wrapping_of(row.account_id, found, root):
        raise IntegrityFailed(
            "The store holds another content key for this account than the database. Nothing was saved.",
            next_action="Tell the operator: the database and the store are not of one installation, or one of them was restored.",
        )


def _is_wrapping_of(account_id: str, wrapped: bytes, root: SecretKey) -> bool:
    try:
        return unwrap(account_id, wrapped).reveal() == root.reveal()
    except IntegrityError:
        return False


@dataclass(frozen=True)
class Rotated:
    rewrapped: int
    current: int  # that were under the master key already


def rotate(*, step: Step = no_step) -> Rotated:
    """Bring every account's wrapping under the present master key. Unit and pack keys do not change, so no content is touched.

    Safe to repeat, and to be done while the service works. IntegrityError for a wrapping that neither key opens: it names the account.
    """
    rewrapped = current = 0
    for account_id in AccountKey.objects.order_by("account_id").values_list("account_id", flat=True):
        if _rewrap(account_id, step):
            rewrapped += 1
        else:
            current += 1
    return Rotated(rewrapped, current)


def _rewrap(account_id: str, step: Step) -> bool:
    """True if it was under the previous key. The object comes first, then the row, then the old objects go."""
    row = AccountKey.objects.filter(account_id=account_id).first()
    if row is None:
        return False
    root = unwrap(account_id, bytes(row.wrapped))
    was_old = not _opens(account_id, bytes(row.wrapped))
    generation = row.generation
    if was_old:
        wrapped, generation = _store_next(row, root)
        step("key_object_durable")
        with transaction.atomic():
            as_read = AccountKey.objects.filter(account_id=account_id, generation=row.generation)
            moved = as_read.update(wrapped=wrapped, generation=generation)
        step("key_row_moved")
        if not moved:
            return True  # another rotation did it
    else:
        _ensure_stored(row, root)
    for old in range(generation):
        storage.delete_object(account_key_key(account_id, old))
        step("key_object_deleted")
    return was_old


def _opens(account_id: str, wrapped: bytes) -> bool:
    try:
        unwrap_root_key(master_keys()[0], account_id, wrapped)
    except IntegrityError:
        return False
    return True


def _store_next(row: AccountKey, root: SecretKey) -> tuple[bytes, int]:
    """A wrapping under the present master key, durable, with its generation: one that a rotation which died has left, or a new one."""
    generation = row.generation + 1
    while (found := read_stored(row.account_id, generation)) is not None:
        if _opens(row.account_id, found) and _is_wrapping_of(row.account_id, found, root):
            return found, generation
        generation += 1
    wrapped = wrap_root_key(master_keys()[0], row.account_id, root)
    storage.backend().put_if_absent(account_key_key(row.account_id, generation), [wrapped])
    return wrapped, generation
