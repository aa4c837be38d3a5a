"""System checks: settings that would leave an installation open. Ids are stable."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1", "testserver"})


@register("security")
def hosts(app_configs: Any, **_: Any) -> Iterable[CheckMessage]:
    beyond = [host for host in settings.ALLOWED_HOSTS if host not in LOOPBACK]
    if "*" in beyond:
        yield Error("KEEPSTATE_ALLOWED_HOSTS is '*'.", hint="Name the hosts that this service answers to.", id="keepstate.E001")
    if beyond and settings.DEBUG:
        yield Error("DEBUG is on for hosts beyond loopback.", hint="Unset KEEPSTATE_DEBUG.", id="keepstate.E002")
    if beyond and not settings.KEEPSTATE_TLS:
        yield checks.Warning(
            "Hosts beyond loopback are allowed, but KEEPSTATE_TLS is off: tokens could travel in the clear.",
            hint="Put TLS in front and set KEEPSTATE_TLS=1.",
            id="keepstate.W001",
        )


@register("security")
def secrets(app_configs: Any, **_: Any) -> Iterable[CheckMessage]:
    if len(settings.SECRET_KEY) < 32:
        yield Error("KEEPSTATE_SECRET_KEY is shorter than 32 characters.", hint="Use `openssl rand -hex 32`.", id="keepstate.E003")
    directory = settings.KEEPSTATE_SECRETS
    for file in sorted(directory.iterdir()) if directory.is_dir() else ():
        if file.stat().st_mode & 0o077:
            yield Error(f"{file} can be read by others.", hint=f"chmod 600 {file}", id="keepstate.E004")
