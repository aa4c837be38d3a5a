"""What a place that holds objects can answer instead of doing what was asked."""

from typing import Literal


class StoreError(Exception):
    """Base of every error that the store raises on purpose."""


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
