"""What a gateway process tells of itself (gateway_app.models.process), in one statement; and for how long that statement took."""

import time

from gateway_app.proxy.gateway import Gateway

_TELL = """
INSERT INTO gateway_app_gatewayprocess (name, host_id, draining, doors, calls, streams, database_seconds, seen_at)
VALUES (%(name)s, %(host)s, %(draining)s, %(doors)s, %(calls)s, %(streams)s, %(seconds)s, now())
ON CONFLICT (name) DO UPDATE SET draining = excluded.draining, doors = excluded.doors, calls = excluded.calls,
    streams = excluded.streams, database_seconds = excluded.database_seconds, seen_at = now()
"""


async def tell(one: Gateway, host: str, doors: int, seconds: float | None) -> float:
    """`seconds`: what the last time took; returns what this one took. Raises OperationalError or PoolTimeout."""
    facts = {
        "name": one.name,
        "host": host,
        "draining": one.draining,
        "doors": doors,
        "calls": len(one.pumps),
        "streams": sum(pump.call.streamed for pump in one.pumps.values()),
        "seconds": seconds,
    }
    async with one.database.connection() as connection:
        began = time.perf_counter()
        await connection.execute(_TELL, facts)
        return time.perf_counter() - began
