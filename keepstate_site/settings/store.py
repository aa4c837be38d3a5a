"""CHECKPOINT_STORE_URL -> STORAGES["checkpoints"]. A store that is not what was asked for loses work: what is not known is refused."""

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from keepstate_site.settings import store_s3

_NAMES = {"..", ".", "~"}  # that a shell resolves, and a path within a URL does not


def checkpoint_storage(url: str, credentials: Path) -> dict[str, Any]:
    """`file:///directory`, or `s3://bucket/prefix?endpoint=...&region=...&addressing=...`.

    `credentials` is the file that S3's come from where the environment has none. ImproperlyConfigured for anything else; its text does
    not repeat the URL, in which someone may have put a password.
    """
    parts = _split(url)
    if parts.scheme == "s3":
        return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": store_s3.options(parts, credentials)}
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc or not path.is_absolute() or not path.name or not _NAMES.isdisjoint(path.parts):
        raise ImproperlyConfigured(
            "CHECKPOINT_STORE_URL is neither file:///directory with an absolute directory nor s3://bucket/prefix?endpoint=http://host:port."
        )
    if "?" in url or "#" in url:  # what follows would be dropped, and another directory taken
        raise ImproperlyConfigured("CHECKPOINT_STORE_URL names a directory with '?' or '#': write %3F or %23.")
    return {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(path), "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    }


def _split(url: str) -> SplitResult:
    try:
        if not url.isprintable() or url != url.strip() or "\0" in unquote(url):
            raise ValueError("the library would take such characters out, or keep them")
        return urlsplit(url)
    except ValueError:
        raise ImproperlyConfigured(
            "CHECKPOINT_STORE_URL is no URL: it has spaces around it, control characters, or brackets that do not close."
        ) from None
