"""The places that the crash gates save to, as a victim in another process is told of them: a directory, or a location on an S3 server."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from checkpoints_app.store import Backend, LocalBackend
from checkpoints_app.store.backends.s3 import Credentials, S3Place, open_backend

_SECRETS = "CRASH_GATE_CREDENTIALS"  # in the environment: a command line can be read by everyone


def told(place: Path | S3Place) -> tuple[str, Mapping[str, str]]:
    """An argument and additions to the environment."""
    if isinstance(place, Path):
        return str(place), {}
    facts = asdict(place)
    secrets = facts.pop("credentials")
    return json.dumps(facts), {_SECRETS: json.dumps(secrets)}


def heard(argument: str) -> Path | S3Place:
    if not argument.startswith("{"):
        return Path(argument)
    return S3Place(**json.loads(argument), credentials=Credentials(**json.loads(os.environ[_SECRETS])))


def opened(place: Path | S3Place) -> Backend:
    return LocalBackend(place) if isinstance(place, Path) else open_backend(place)
