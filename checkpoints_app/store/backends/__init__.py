"""Places that hold objects. `backend.py` is the contract, `tests/store_suite.py` its conformance suite."""

from .backend import Backend, Batch, Step, no_step
from .local import LocalBackend

__all__ = ["Backend", "Batch", "LocalBackend", "Step", "no_step"]
