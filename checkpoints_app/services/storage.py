"""The configured checkpoint store (STORAGES["checkpoints"]) and the deletion of single objects in it."""

from functools import cache

from django.core.files.storage import FileSystemStorage, storages

from checkpoints_app.store import Backend, Kind, LocalBackend, object_key


@cache
def backend() -> Backend:
    """Our own writer over the place that the storage setting names: Django's storage neither syncs nor renames."""
    configured = storages["checkpoints"]
    if isinstance(configured, FileSystemStorage):
        return LocalBackend(str(configured.location))
    raise TypeError(f"no backend of the checkpoint store for {type(configured).__name__}")


def delete_pack(account_id: str, pack_id: str) -> None:
    backend().delete(object_key(account_id, Kind.PACK, pack_id))


def delete_manifest(account_id: str, manifest_id: str) -> None:
    backend().delete(object_key(account_id, Kind.MANIFEST, manifest_id))


def remove_abandoned() -> int:
    """Remove the unfinished objects of writers that died; returns how many writers'. What a live one holds is not touched."""
    found = backend()
    return found.remove_abandoned() if isinstance(found, LocalBackend) else 0
