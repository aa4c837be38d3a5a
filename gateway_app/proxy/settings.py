"""Where providers are, and what guests' credentials are made with."""

import hashlib
import hmac
from dataclasses import dataclass

from django.conf import settings

from gateway_app.states import Provider


@dataclass(frozen=True)
class ProxySettings:
    """`bases`: each provider's address without a path; `secrets`: the current one first."""

    bases: dict[Provider, str]
    secrets: list[bytes]


def proxy_settings() -> ProxySettings:
    """From the installation's settings. A master key that was exchanged still opens the credentials in machines that were saved before."""
    masters: list[bytes] = [settings.KEEPSTATE_MASTER_KEY]
    if settings.KEEPSTATE_MASTER_KEY_PREVIOUS:
        masters.append(settings.KEEPSTATE_MASTER_KEY_PREVIOUS)
    told: dict[str, str] = settings.KEEPSTATE_PROVIDERS
    return ProxySettings(
        bases={Provider(name): base for name, base in told.items()},
        secrets=[hmac.new(master, b"KeepState guest credentials v1", hashlib.sha256).digest() for master in masters],
    )
