"""Hosts are the operator's. Parameters of operations and facts of the service record name them, under these keys and no others; what an
account reads of either has none of them.
"""

from collections.abc import Mapping
from typing import Any

_KEYS = frozenset({"from", "to", "left", "host", "host_id", "avoid"})


def without(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in _KEYS}
