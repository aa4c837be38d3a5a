"""Words of this app."""

from enum import StrEnum


class Heat(StrEnum):
    """How much of what a machine starts from lies on a host."""

    HOT = "hot"  # the memory image of that root, assembled
    WARM = "warm"  # every pack that it is made from, where the store is elsewhere
    IMAGE = "image"  # the guest image of that digest
