"""Where the objects lie, and the client that speaks to it."""

import logging
from dataclasses import dataclass, field
from typing import Any, Literal

import boto3
from botocore.config import Config

from .connections import watch

Client = Any  # boto3 makes its clients' methods at run time; it has no types

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True)
class Credentials:
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class S3Place:
    """`location` is what every key begins with, without '/' at its ends.

    Times in seconds, each for one wait on the network: for a connection, or for a piece of an upload to be taken; and for an answer to go
    on. How long a body takes in all is limited too (`Patience`). A limit of ours: a server that sends its headers, or a page of a listing,
    byte after byte is waited for as long as it does.

    A read that is asked for the first time waits only `first_read_seconds` for the answer to go on; asked again, and on a new connection,
    it waits `read_seconds`. AWS advises the same, after 2 and 4 seconds for requests below 512 KB ("Timeouts and retries for
    latency-sensitive applications", in its design patterns for S3); ours ask for up to 8 MiB, of servers that are slower too.
    """

    bucket: str
    location: str = ""
    endpoint: str | None = None  # scheme, host and port, never credentials; None: AWS
    region: str = DEFAULT_REGION
    addressing: Literal["auto", "path", "virtual"] = "auto"
    credentials: Credentials | None = None  # None: boto3 finds them (environment, profile, instance role)
    connections: int = 16  # kept open at most; more threads may ask, at the price of a new connection each time
    connect_seconds: float = 10
    read_seconds: float = 30
    first_read_seconds: float = 5
    kept_seconds: float = 50  # a connection is asked nothing more then: load balancers silently forget idle ones after 60 s at the least


def make_client(place: S3Place) -> Client:
    """One per process, for all its threads; never used across a fork. Makes no request.

    It tries each request once: `Patience` decides what is asked again, because only we know what a lost answer means. Checksums only
    where S3 demands them: newer defaults send a trailer that other servers store inside the object, or refuse. The body is covered all
    the same, by its SHA-256 in the signature, which the server compares.
    """
    _be_quiet()
    config = Config(
        signature_version="s3v4",
        retries={"total_max_attempts": 1},
        connect_timeout=place.connect_seconds,
        read_timeout=place.read_seconds,
        max_pool_connections=place.connections,
        tcp_keepalive=True,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,  # the place alone says where; a variable of another program must not move the store
        s3={"addressing_style": place.addressing, "payload_signing_enabled": True},
    )
    found = place.credentials
    session = boto3.Session(
        aws_access_key_id=found.access_key if found else None,
        aws_secret_access_key=found.secret_key if found else None,
        aws_session_token=found.session_token if found else None,
    )
    client = session.client("s3", region_name=place.region, endpoint_url=place.endpoint, config=config)
    watch(client, first_read_seconds=min(place.first_read_seconds, place.read_seconds), kept_seconds=place.kept_seconds)
    return client


def _be_quiet() -> None:
    """At its DEBUG level the library writes what it signs and sends, session tokens included, wherever the process logs to."""
    for name in ("boto3", "botocore", "urllib3"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
