"""CHECKPOINT_STORE_URL: what is not known is refused by the part that is wrong, and never taken for another place."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from keepstate_site.settings.store import checkpoint_storage

NONE = Path("/no/such/file")


def options(url: str) -> dict[str, object]:
    found: dict[str, object] = checkpoint_storage(url, NONE)["OPTIONS"]
    return found


@pytest.fixture(autouse=True)
def no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_S3_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("rest", ["endpoint=", "region=", "addressing=", "endpoint=http://h:1&region="])
def test_an_empty_part_is_refused_and_not_taken_for_the_default(rest: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="is empty"):
        options(f"s3://kept-work/x?{rest}")


@pytest.mark.parametrize(
    "endpoint",
    [
        *("minio", "minio:9000", "ftp://h", "http://", "http://h:abc", "http://h:99999", "http://h:0", "http://[::1", "http://a b"),
        *("http://-h", "http://h/path", "http://h?x", "http://h%23x", "http:///x"),
    ],
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"endpoint that is not http://host:port"):
        options(f"s3://kept-work/x?endpoint={endpoint}")


@pytest.mark.parametrize("endpoint", ["http://h", "https://s3.example:9000", "http://[::1]:9000", "http://10.0.0.7:8333", "http://h:9000/"])
def test_an_endpoint_is_a_scheme_and_a_host(endpoint: str) -> None:
    assert options(f"s3://kept-work/x?endpoint={endpoint}")["endpoint_url"] == endpoint.rstrip("/")


@pytest.mark.parametrize("bucket", ["", "ab", "Kept", "kept_work", "kept..work", "kept-.work", ".kept", "kept:9000", "10.0.0.7", "k" * 64])
def test_a_bucket_that_cannot_be_one_is_refused(bucket: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="names no bucket"):
        options(f"s3://{bucket}/x")


@pytest.mark.parametrize("prefix", ["../x", ".x", "a//b", "a%20b", "a b", "x" * 257, "x#f", "x;y"])
def test_a_prefix_that_cannot_begin_a_key_is_refused(prefix: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="prefix"):
        options(f"s3://kept-work/{prefix}")


@pytest.mark.parametrize("region", ["a b", "../x", "a/b", "x" * 64])
def test_a_region_that_cannot_be_one_is_refused(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match="region"):
        options(f"s3://kept-work/x?region={region}")
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(ImproperlyConfigured, match="AWS_REGION"):
        options("s3://kept-work/x")


@pytest.mark.parametrize(
    "url", ["s3://[kept-work/x", "s3://kept-work/x\n", "s3://kept\nwork/x", " file:///srv/x", "file:///srv/a%00b", "\tx"]
)
def test_what_is_no_url_is_refused_as_such(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="no URL"):
        options(url)


@pytest.mark.parametrize(
    "url", ["", "/srv/x", "srv", "file:srv", "file://host/srv", "file:///", "file:////", "file:///..", "file:///a/../b"]
)
def test_a_directory_that_is_not_absolute_or_not_plain_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="absolute directory"):
        options(url)


@pytest.mark.parametrize("scheme", ["gs", "https", "s3a", "azure"])
def test_another_kind_of_place_is_refused(scheme: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="neither file"):
        options(f"{scheme}://kept-work/x")


@pytest.mark.parametrize("url", ["file:///srv/a?b", "file:///srv/a#b", "file:///srv/a?"])
def test_a_directory_of_which_a_part_would_be_dropped_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="%3F"):
        options(url)
    assert options("file:///srv/a%3Fb%23c")["location"] == "/srv/a?b#c"
