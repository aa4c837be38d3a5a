"""CHECKPOINT_STORE_URL -> STORAGES["checkpoints"]."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def checkpoint_storage(url: str) -> dict[str, Any]:
    """`file:///directory` only. Raises ImproperlyConfigured for anything else: a store that is not what was asked for loses work."""
    parts = urlsplit(url)
    if parts.scheme == "s3":
        raise ImproperlyConfigured(
            "CHECKPOINT_STORE_URL=s3://... comes with the S3 backend, which this version does not have; use file:///directory."
        )
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc or not path.is_absolute() or path == Path("/"):
        raise ImproperlyConfigured(f"CHECKPOINT_STORE_URL={url!r} is not file:///directory with an absolute directory.")
    return {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(path), "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    }
