"""The options of django-storages' S3 storage, from the parts of CHECKPOINT_STORE_URL. docs/operations/configure.md, "S3"."""

import configparser
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured

_BUCKET = re.compile(r"(?=.{3,63}$)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+")
_LOCATION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_KNOWN = ("endpoint", "region", "addressing")
_ADDRESSING = ("auto", "path", "virtual")
_PROFILE = "default"


def options(url: SplitResult, credentials: Path) -> dict[str, Any]:
    """ImproperlyConfigured names the part that is wrong, and never repeats what could be a secret."""
    query = _query(url.query)
    location = url.path.strip("/")
    if not _BUCKET.fullmatch(url.netloc):
        raise _refused("names no bucket: s3://bucket/prefix, with 3 to 63 of a-z, 0-9, '-' and '.', and without credentials or a port")
    if url.fragment or len(location) > 256 or (location and not _LOCATION.fullmatch(location)):
        raise _refused("has a prefix that is not segments of letters, digits, '.', '_' and '-' (256 in all)")
    endpoint = _endpoint(query.get("endpoint"))
    addressing = query.get("addressing", "path" if endpoint else "auto")
    if addressing not in _ADDRESSING:
        raise _refused(f"has an addressing that is not one of {', '.join(_ADDRESSING)}")
    region = query.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    if not _REGION.fullmatch(region):
        raise _refused("has a region that is not letters, digits, '-' and '_' (or AWS_REGION has)")
    return {
        "bucket_name": url.netloc,
        "location": location,
        "endpoint_url": endpoint,
        "region_name": region,
        "addressing_style": addressing,
        "signature_version": "s3v4",
        "file_overwrite": False,
        "default_acl": None,
        **_from_file(credentials),
    }


def _query(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, strict_parsing=True, keep_blank_values=True) if text else []
    except ValueError:
        raise _refused("has a query that is not name=value&name=value") from None
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names) or not set(names) <= set(_KNOWN):
        raise _refused(f"has a query with other names than {', '.join(_KNOWN)}, or one of them twice")
    empty = [name for name, value in pairs if not value]
    if empty:  # of an endpoint that is empty, because a variable was, the work would go to AWS
        raise _refused(f"has a query in which {empty[0]} is empty")
    return dict(pairs)


def _endpoint(text: str | None) -> str | None:
    if text is None:
        return None
    if "@" in text:
        raise _refused(
            "has an endpoint with credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead, which are kept out of logs"
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # a port that is no number or too large, brackets that do not close
        parts, host, port = SplitResult("", "", "", "", ""), "", None
    bare = not (parts.path.strip("/") or "?" in text or "#" in text)
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or port == 0 or not bare:
        raise _refused("has an endpoint that is not http://host:port or https://host:port")
    return f"{parts.scheme}://{parts.netloc}"


def _from_file(file: Path) -> dict[str, str | None]:
    """Credentials from the file, in the format of AWS' own, where the environment has none; {} leaves them to boto3's usual ways."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_S3_ACCESS_KEY_ID") or not file.exists():
        return {}
    try:
        if file.stat().st_mode & 0o077:
            raise ImproperlyConfigured(f"{file} can be read by others: chmod 600 it, and consider its keys known.")
        found = configparser.ConfigParser(interpolation=None)
        found.read_string(file.read_text(encoding="utf-8"))
        section = found[_PROFILE]
        return {
            "access_key": section["aws_access_key_id"],
            "secret_key": section["aws_secret_access_key"],
            "security_token": section.get("aws_session_token"),
        }
    except OSError as error:
        raise ImproperlyConfigured(f"{file} cannot be read: {error.strerror}.") from None
    except (configparser.Error, KeyError, UnicodeDecodeError):
        raise ImproperlyConfigured(
            f"{file} has no [{_PROFILE}] with aws_access_key_id and aws_secret_access_key."
        ) from None  # the cause quotes lines of the file


def _refused(what: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"CHECKPOINT_STORE_URL {what}. docs/operations/configure.md has examples.")
