"""What can go wrong in the store. Messages name an object's kind and id, never its content and never a key."""

from .backends.errors import (
    BackendError,
    MissingObjectError,
    NoSpaceError,
    ObjectExistsError,
    PermissionDeniedError,
    StoreError,
    UnavailableError,
)

__all__ = [
    "BackendError",
    "IntegrityError",
    "LocationError",
    "MissingObjectError",
    "NoSpaceError",
    "ObjectExistsError",
    "PermissionDeniedError",
    "StoreError",
    "UnavailableError",
]


class IntegrityError(StoreError):
    """Stored bytes are not what was written: damaged, exchanged, cut, or sealed for another account. Retrying does not help."""

    def __init__(self, kind: str, object_id: str, reason: str):
        super().__init__(f"{kind} {object_id} is refused: {reason}. Nothing of it was used.")
        self.kind = kind
        self.object_id = object_id
        self.reason = reason


class LocationError(StoreError):
    """A map names a place that no pack at hand has."""

    def __init__(self) -> None:
        super().__init__("a map of units names a place that none of the packs at hand has")
