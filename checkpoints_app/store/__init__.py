"""The checkpoint store: sealed packs of content-addressed units and the manifests over them. Pure bytes: no Django, no settings.

Saving: `load_index`, `CheckpointWriter`. Resuming: `load_manifest`, `verify_roots`, `restore_image`. Format: docs/store-format.md.
"""

from .backends import Backend, Batch, LocalBackend
from .errors import (
    BackendError,
    IntegrityError,
    MissingObjectError,
    NoSpaceError,
    ObjectExistsError,
    PermissionDeniedError,
    StoreError,
    UnavailableError,
)
from .extents import BASE, ZERO
from .ids import UNIT_BYTES
from .index import UnitIndex
from .keys import AccountKeys, SecretKey, derive_keys, unwrap_root_key, wrap_root_key
from .manifest import ImageMap, Manifest
from .names import account_prefix, object_key
from .packer import StoredPack
from .plan import PublishedPlan
from .reader import load_index, load_manifest, load_pack_index, load_pack_indexes, verify_roots
from .restore import restore_image
from .seal import Kind
from .writer import CheckpointWriter

__all__ = [
    "BASE",
    "UNIT_BYTES",
    "ZERO",
    "AccountKeys",
    "Backend",
    "BackendError",
    "Batch",
    "CheckpointWriter",
    "ImageMap",
    "IntegrityError",
    "Kind",
    "LocalBackend",
    "Manifest",
    "MissingObjectError",
    "NoSpaceError",
    "ObjectExistsError",
    "PermissionDeniedError",
    "PublishedPlan",
    "SecretKey",
    "StoreError",
    "StoredPack",
    "UnavailableError",
    "UnitIndex",
    "account_prefix",
    "derive_keys",
    "load_index",
    "load_manifest",
    "load_pack_index",
    "load_pack_indexes",
    "object_key",
    "restore_image",
    "unwrap_root_key",
    "verify_roots",
    "wrap_root_key",
]
