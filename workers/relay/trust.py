"""Whether this process and a host's relay have the same master key, by what the relay has left in the database.

It is known before anything is dialled, so that nothing has to be told over the network to somebody without the key.
"""

import hmac

from django.conf import settings

from workers.host.liveness import is_fresh
from workers.models import HostRelay
from workers.relay import proof


def master_keys() -> list[bytes]:
    """This process's: the one in use, and the one before while they are exchanged."""
    previous = settings.KEEPSTATE_MASTER_KEY_PREVIOUS
    return [settings.KEEPSTATE_MASTER_KEY, *([previous] if previous else [])]


def shared_key(relay: HostRelay) -> bytes | None:
    """The first of this process's master keys that the relay has too; None: it has others, and would refuse this process."""
    return next((master for master in master_keys() if _has(relay, master)), None)


def hosts_with_other_keys() -> list[str]:
    """Live hosts whose relays would refuse this process."""
    relays = HostRelay.objects.filter(is_fresh("host__")).order_by("host_id")
    return [relay.host_id for relay in relays if shared_key(relay) is None]


def _has(relay: HostRelay, master: bytes) -> bool:
    return any(hmac.compare_digest(proof.mark(master, relay.fingerprint), mark) for mark in relay.key_marks)
