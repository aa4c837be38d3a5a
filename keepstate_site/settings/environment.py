"""Read one setting from the environment, or refuse with a text that says what to set. Nothing here has a default secret."""

import base64
import binascii
import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

KEY_BYTES = 32


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str) -> bool:
    """True for 1, yes, true, on; False for 0, no, false, off and for an unset name; anything else is refused."""
    value = text(name, "0").lower()
    if value in {"1", "yes", "true", "on"}:
        return True
    if value in {"0", "no", "false", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is neither yes nor no: set 1 or 0.")


def number(name: str, default: int, *, low: int, high: int) -> int:
    value = text(name, str(default))
    if not value.isdecimal() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name}={value!r} must be a whole number from {low} to {high}.")
    return int(value)


def choice(name: str, default: str, known: set[str]) -> str:
    value = text(name, default)
    if value not in known:
        raise ImproperlyConfigured(f"{name}={value!r} is none of {', '.join(sorted(known))}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word for word in text(name, default).replace(",", " ").split() if word]


def address(name: str) -> tuple[str, int] | None:
    """ADDRESS:PORT, an IPv6 address in brackets; None for an unset name."""
    value = text(name)
    if not value:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not host.strip("[]") or not port.isdecimal() or int(port) > 65535:
        raise ImproperlyConfigured(f"{name}={value!r} is no ADDRESS:PORT such as 10.0.0.5:8791.")
    return host.strip("[]"), int(port)


def networks(name: str) -> list[str]:
    """Networks as 10.0.0.0/8 or fd00::/8, separated by blanks or commas."""
    found = words(name)
    try:
        return [str(ipaddress.ip_network(one)) for one in found]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} holds something that is no network such as 10.0.0.0/8: {error}.") from None


def state_directory(project: Path) -> Path:
    """The root of all local state: KEEPSTATE_VAR, else `var` in the checkout. Always absolute."""
    return Path(text("KEEPSTATE_VAR", str(project / "var"))).absolute()


def secret(name: str, file: Path) -> str:
    """The secret of that name from the environment, else from its 0600 file, else a refusal that tells both ways."""
    value = text(name)
    if value:
        return value
    try:
        value = file.read_text().strip()
    except FileNotFoundError:
        value = ""
    except OSError as error:
        raise ImproperlyConfigured(f"{name} is not set and {file} cannot be read: {error.strerror}.") from error
    if not value:
        raise ImproperlyConfigured(
            f"{name} is not set and {file} does not exist. Set {name} to 64 random hex digits "
            "(`openssl rand -hex 32`), or let `./keepstate up` create the file."
        )
    return value


def key(name: str, file: Path) -> bytes:
    """A 32-byte key, written as 64 hex digits or as base64."""
    return _key_bytes(name, secret(name, file))


def optional_key(name: str) -> bytes | None:
    """A key that most installations do not have."""
    value = text(name)
    return _key_bytes(name, value) if value else None


def _key_bytes(name: str, value: str) -> bytes:
    for decode in (bytes.fromhex, lambda line: base64.b64decode(line, validate=True)):
        try:
            raw = decode(value)
        except (ValueError, binascii.Error):
            continue
        if len(raw) == KEY_BYTES:
            return raw
    raise ImproperlyConfigured(f"{name} must be {KEY_BYTES} bytes as hex or base64; what was given is something else. No key was made up.")


def url(name: str, default: str, schemes: set[str]) -> str:
    value = text(name, default)
    if value and urlsplit(value).scheme not in schemes:
        raise ImproperlyConfigured(f"{name} has the scheme {urlsplit(value).scheme!r}; known are {', '.join(sorted(schemes))}.")
    return value
