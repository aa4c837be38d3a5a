"""What can go wrong in the store. Messages name an object's kind and id, never its content and never a key."""

from typing import Literal


class StoreError(Exception):
    """Base of every error that the store raises on purpose."""


class IntegrityError(StoreError):
    """Stored bytes are not what was written: damaged, exchanged, cut, or sealed for another account. Retrying does not help."""

    def __init__(self, kind: str, object_id: str, reason: str):
        super().__init__(f"{kind} {object_id} is refused: {reason}. Nothing of it was used.")
        self.kind = kind
        self.object_id = object_id
        self.reason = reason


class MissingObjectError(StoreError):
    """An object that a checkpoint needs is not in the store."""

    def __init__(self, key: str):
        super().__init__(f"object {key} is not in the store")
        self.key = key


class ObjectExistsError(StoreError):
    """The key is taken. The object under it was not touched, and the new one was not stored."""

    def __init__(self, key: str):
        super().__init__(f"object {key} exists already; it was not touched")
        self.key = key


class BackendError(StoreError):
    """The place that holds the objects refused an action. `code` is stable: no_space, permission, unavailable."""

    code: Literal["no_space", "permission", "unavailable"]


class NoSpaceError(BackendError):
    """No room (or quota). Free space, then retry; nothing that was stored before is affected."""

    code = "no_space"


class PermissionDeniedError(BackendError):
    """The service may not do this. Retrying does not help; a listing that ends so says nothing about what exists."""

    code = "permission"


class UnavailableError(BackendError):
    """The place did not answer as it should; the outcome of the action is unknown. Retrying may help."""

    code = "unavailable"
