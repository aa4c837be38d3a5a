"""What a call cost, exactly, from a table of prices that says where each comes from. A model that is not in it has no price."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from gateway_app.usage import Tokens

TABLE = Path(__file__).with_name("prices.json")
_PER = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """Micro-dollars, rounded half to even once; None where the model's price, or any of the call's tokens, is not known."""

    microusd: int | None
    version: str


@cache
def table() -> dict[str, Any]:
    """{"version", "prices": [{"provider", "model", "source", "since", "input", "output", "cache_read", "cache_write"}]}, in dollars per
    million tokens, as decimal text.
    """
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def microusd(provider: str, model: str, tokens: Tokens, *, ordinary: bool = True, day: str = "") -> Price:
    """By the newest price of the model that held on the day (YYYY-MM-DD; today, if empty).

    `ordinary`: the call is billed by its tokens at the standard rate, as far as its answer tells; what else it cost is not known.
    """
    version, day = str(table()["version"]), day or datetime.now(UTC).date().isoformat()
    rows = [one for one in table()["prices"] if (one["provider"], one["model"]) == (provider, model) and one["since"] <= day]
    row = max(rows, key=lambda one: str(one["since"]), default=None)
    if row is None or not tokens.known or not ordinary:
        return Price(None, version)
    total = Decimal(0)
    for kind in ("input", "output", "cache_read", "cache_write"):
        count = getattr(tokens, kind) or 0
        if count and row.get(kind) is None:
            return Price(None, version)
        total += Decimal(row.get(kind) or 0) * count
    return Price(int((total / _PER * 1_000_000).to_integral_value(ROUND_HALF_EVEN)), version)
