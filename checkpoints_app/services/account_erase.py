"""Everything that the store holds of an account, erased for good: objects, then its content key, then a receipt that says so.

Order: all checkpoints are marked and all rows that a save could rely on are condemned; every object below the account's prefixes is
deleted and confirmed gone, the key's last; then the rows go; then the receipt is signed. Each step finds its beginning done by a call that
died. From the moment that the key is gone, whatever a writer in flight still puts is unreadable for ever; a last listing finds it.
"""

from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from checkpoints_app.models import AccountKey, Checkpoint, ErasureReceipt, Manifest, ManifestEdge, OrphanObject, Pack, PackEdge
from checkpoints_app.services import key, receipt, storage
from checkpoints_app.states import CheckpointState, ManifestState, PackState
from checkpoints_app.store import account_prefix
from checkpoints_app.store.backends.backend import Listed, Step, no_step
from checkpoints_app.store.names import QUARANTINE, parse_key
from sessions_app.errors import Conflict
from sessions_app.models import Account, Session
from sessions_app.services import locks
from sessions_app.states import SessionState

_WAIT_SECONDS = 60
_BATCH = 1000
_LISTINGS = 8  # each one after the first finds only what writers in flight have put meanwhile


def erase_account(account: Account, *, step: Step = no_step) -> ErasureReceipt:
    """Prerequisite: every session of the account is deleted, else Conflict and nothing was erased. The account's own row stays.

    Safe to repeat: after BackendError or Busy what was left is done, and the one receipt written; when all is done, the last receipt is
    returned again. Raises BackendError if a listing or a deletion fails: then nothing is reported as erased.
    """
    with _alone(account.id):
        found = _begin(account)
        if found.finished_at is None:
            _erase(account, found, step)
            _sign(found)
        return found


def erase_with_account(account: Account) -> dict[str, Any]:
    """A step of the account's own deletion: as `erase_account`, but the receipt stays unsigned until all else of the account is gone."""
    with _alone(account.id):
        found = _begin(account)
        if found.finished_at is None:
            _erase(account, found, no_step)
        found.refresh_from_db()
        return {"stored objects": found.object_count, "stored bytes": found.stored_bytes, "published checkpoints": found.checkpoint_count}


def sign_deletion(account_id: str, deletion_id: str, erased: dict[str, Any]) -> None:
    """The receipt of the account's deletion, over all that was erased. Safe to repeat; the account's rows are gone."""
    with _alone(account_id):
        if ErasureReceipt.objects.filter(deletion_id=deletion_id, finished_at__isnull=False).exists():
            return
        found = ErasureReceipt.objects.filter(account_id=account_id, finished_at__isnull=True).first()
        found = found or ErasureReceipt.objects.create(account_id=account_id)
        ErasureReceipt.objects.filter(id=found.id).update(deletion_id=deletion_id, erased=erased)
        _sign(found)


def _alone(account_id: str) -> AbstractContextManager[None]:
    return locks.exclusive(f"account-erase/{account_id}", _WAIT_SECONDS)


def _erase(account: Account, found: ErasureReceipt, step: Step) -> None:
    _condemn(account)
    step("condemned")
    _delete_objects(account, found, step)
    _delete_key(account, found, step)
    _delete_rows(account)
    step("rows_deleted")


def _begin(account: Account) -> ErasureReceipt:
    alive = Session.objects.filter(account=account).exclude(runtime_state=SessionState.DELETED)
    if alive.exists():
        raise Conflict(
            f"The account has {alive.count()} sessions that are not deleted. Nothing was erased.",
            next_action="Delete them, wait for it, then erase the account.",
        )
    unfinished = ErasureReceipt.objects.filter(account_id=account.id, finished_at__isnull=True).first()
    last = ErasureReceipt.objects.filter(account_id=account.id).order_by("-finished_at").first()
    if unfinished is None and last is not None and not AccountKey.objects.filter(account=account).exists():
        return last
    if unfinished is None:
        unfinished = ErasureReceipt.objects.create(
            account_id=account.id, checkpoint_count=Checkpoint.objects.filter(account=account).exclude(content_digest="").count()
        )
    return unfinished


def _condemn(account: Account) -> None:
    with transaction.atomic():
        left = Checkpoint.objects.filter(account=account).exclude(state=CheckpointState.ERASED)
        list(left.select_for_update(no_key=True).order_by("id").values_list("id"))
        left.update(state=CheckpointState.ERASING)
    edges = PackEdge.objects.filter(checkpoint__account=account).order_by("pack_id")
    while batch := list(edges.values_list("pack_id", flat=True)[:_BATCH]):
        with transaction.atomic():
            list(Pack.objects.select_for_update().filter(id__in=batch).order_by("id"))
            PackEdge.objects.filter(pack_id__in=batch).delete()
            Pack.objects.filter(id__in=batch).update(state=PackState.CONDEMNED)
    with transaction.atomic():
        list(Manifest.objects.select_for_update().filter(account=account).order_by("id"))
        ManifestEdge.objects.filter(manifest__account=account).delete()
        Manifest.objects.filter(account=account).update(state=ManifestState.CONDEMNED)


def _delete_objects(account: Account, found: ErasureReceipt, step: Step) -> None:
    """All but the key. A listing that fails raises, and no later step begins."""
    if found.objects_gone_at is None and AccountKey.objects.filter(account=account).exists():
        _require_store(account)
    for _ in range(_LISTINGS):
        everything = _listed(account)
        if found.object_count is None:
            found.object_count, found.stored_bytes = len(everything), sum(one.object_bytes for one in everything)
            found.save(update_fields=["object_count", "stored_bytes"])
        listed = [one for one in everything if not _is_key(one.key)]
        if not listed:
            ErasureReceipt.objects.filter(id=found.id, objects_gone_at__isnull=True).update(objects_gone_at=Now())
            return
        for one in listed:
            storage.delete_object(one.key)
            step("object_deleted")
    raise Conflict("Objects of the account keep coming: a save of it is still at work. Nothing was reported as erased; ask again.")


def _require_store(account: Account) -> None:
    """An account that has sealed rows and never saved anything may have no object at all: then only the others can tell the store."""
    if any(model.objects.filter(account=account).exists() for model in (Pack, Manifest)):
        storage.require_present(account.id)
    else:
        storage.require_known()


def _listed(account: Account) -> list[Listed]:
    prefix = account_prefix(account.id)
    return [*storage.backend().list(prefix), *storage.backend().list(QUARANTINE + prefix)]


def _is_key(name: str) -> bool:
    parsed = parse_key(name)
    return parsed is not None and parsed.word == "key"


def _delete_key(account: Account, found: ErasureReceipt, step: Step) -> None:
    """The object first and confirmed; then the row, and from then on nobody can read what the account's key has sealed."""
    for one in _listed(account):
        storage.delete_object(one.key)
        step("key_object_deleted")
    AccountKey.objects.filter(account=account).delete()
    if found.key_destroyed_at is None:
        ErasureReceipt.objects.filter(id=found.id).update(key_destroyed_at=Now())
    step("key_row_deleted")
    for one in _listed(account):  # put by a writer that had the key in its memory
        storage.delete_object(one.key)


def _delete_rows(account: Account) -> None:
    while ids := list(islice(Pack.objects.filter(account=account).order_by("id").values_list("id", flat=True), _BATCH)):
        Pack.objects.filter(id__in=ids).delete()
    Manifest.objects.filter(account=account).delete()
    OrphanObject.objects.filter(key__startswith=account_prefix(account.id)).delete()
    Checkpoint.objects.filter(account=account).update(state=CheckpointState.ERASED)


def _sign(found: ErasureReceipt) -> None:
    with transaction.atomic():
        ErasureReceipt.objects.filter(id=found.id).update(finished_at=Now())
        found.refresh_from_db()
        found.signature = receipt.signature(found, key.receipt_keys()[0])
        found.save(update_fields=["signature"])
