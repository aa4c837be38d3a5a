"""DATABASE_URL -> Django's DATABASES entry: psycopg's pool, health checks, and timeouts that fit the process's role."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from sessions_app.bounded import bounded, reconnect_steadily


@dataclass(frozen=True)
class Limits:
    """What one kind of process may do to the database. Milliseconds; None means no limit."""

    statement: int | None
    lock: int | None
    idle_in_transaction: int | None
    pool: tuple[int, int] | None  # smallest and largest number of connections


# A lost host must not keep locks; a migration or an operator's command may take as long as it takes.
ROLES = {
    "web": Limits(statement=15_000, lock=5_000, idle_in_transaction=30_000, pool=(1, 12)),
    "worker": Limits(statement=30_000, lock=10_000, idle_in_transaction=60_000, pool=(0, 12)),
    "command": Limits(statement=None, lock=30_000, idle_in_transaction=None, pool=None),
}

# Dead peers are noticed within about a minute on TCP, also where something was sent that they have not acknowledged (milliseconds; the
# kernel's own patience is a quarter of an hour). Unix sockets ignore these.
KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "connect_timeout": 10,
}

# A database that stands still says nothing of its own limits: who asks waits so much longer than they allow, and no more.
SILENCE_SECONDS = 5


def database(url: str, role: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?host=/socket/directory&sslmode=...`; query entries become libpq options."""
    if role not in ROLES:
        raise ImproperlyConfigured(f"KEEPSTATE_ROLE={role!r} is unknown; known are {', '.join(ROLES)}.")
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    limits = ROLES[role]
    timeouts = {
        "statement_timeout": limits.statement,
        "lock_timeout": limits.lock,
        "idle_in_transaction_session_timeout": limits.idle_in_transaction,
    }
    options["options"] = " ".join(f"-c {name}={value}" for name, value in timeouts.items() if value is not None)
    options["application_name"] = f"keepstate-{role}"
    options |= KEEPALIVES
    if limits.pool:
        reconnect_steadily()
        low, high = limits.pool
        options["pool"] = {"min_size": low, "max_size": high, "timeout": 10, "max_idle": 300}
        if limits.statement is not None:
            options["pool"]["connection_class"] = bounded(limits.statement / 1000 + SILENCE_SECONDS)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "keepstate",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or options.pop("port", "")),
        "CONN_MAX_AGE": 0,  # the pool keeps connections; a command opens one and closes it
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }
