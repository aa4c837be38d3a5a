"""Money as people write it and as it is counted: dollars in decimal text, whole micro-dollars. No step of it is a float."""

import re

MICRO = 1_000_000
_DOLLARS = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?")


def microusd(dollars: str) -> int | None:
    """Exactly; None for what is no decimal number of dollars with at most 6 decimals. ASCII digits and one point alone."""
    found = _DOLLARS.fullmatch(dollars) if dollars.isascii() else None
    if found is None:
        return None
    return int(found[1]) * MICRO + int((found[2] or "").ljust(6, "0"))


def dollars(microusd: int) -> str:
    """With two decimals at least, and no more than it needs."""
    whole, rest = divmod(microusd, MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{whole}.{decimals}"
