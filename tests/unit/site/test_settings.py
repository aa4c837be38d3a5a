"""The settings as a fresh process reads them: safe by default, and refusing with a text that helps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstate_site.stack.paths import PROJECT

SHOW = """
import json
from django.conf import settings as s
print(json.dumps({"debug": s.DEBUG, "hosts": s.ALLOWED_HOSTS, "broker": s.CELERY_BROKER_URL, "key": s.KEEPSTATE_MASTER_KEY.hex(),
                  "store": s.STORAGES["checkpoints"]["OPTIONS"], "database": s.DATABASES["default"]}, default=repr))
"""
KEYS = {"KEEPSTATE_SECRET_KEY": "s" * 64, "KEEPSTATE_MASTER_KEY": "ab" * 32}


def read(tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    base = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "keepstate_site.settings", "KEEPSTATE_VAR": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-c", SHOW], env=base | env, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False
    )


def values(tmp_path: Path, **env: str) -> dict:
    answer = read(tmp_path, **KEYS, **env)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_without_a_secret_nothing_runs_and_the_text_says_what_to_do(tmp_path: Path, missing: str) -> None:
    answer = read(tmp_path, **{name: value for name, value in KEYS.items() if name != missing})
    assert answer.returncode != 0
    assert f"{missing} is not set" in answer.stderr
    assert "openssl rand -hex 32" in answer.stderr
    assert "./keepstate up" in answer.stderr


def test_secrets_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret_key").write_text("t" * 64)
    (tmp_path / "secrets" / "master_key").write_text("cd" * 32 + "\n")
    answer = read(tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["key"] == "cd" * 32


def test_debug_is_off_and_only_loopback_is_served(tmp_path: Path) -> None:
    found = values(tmp_path)
    assert found["debug"] is False
    assert set(found["hosts"]) == {"127.0.0.1", "localhost", "[::1]"}
    assert values(tmp_path, KEEPSTATE_DEBUG="1")["debug"] is True


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"KEEPSTATE_MASTER_KEY": "short"}, "KEEPSTATE_MASTER_KEY must be 32 bytes"),
        ({"KEEPSTATE_DEBUG": "maybe"}, "neither yes nor no"),
        ({"CHECKPOINT_STORE_URL": "s3:///prefix"}, "names no bucket"),
        ({"CHECKPOINT_STORE_URL": "s3://bucket/a//b"}, "has a prefix"),
        ({"CHECKPOINT_STORE_URL": "s3://bucket/a?endpoint=minio:9000"}, "has an endpoint"),
        ({"CHECKPOINT_STORE_URL": "s3://bucket/a?endpiont=http://minio:9000"}, "other names than endpoint, region, addressing"),
        ({"CHECKPOINT_STORE_URL": "s3://bucket/a?addressing=dns"}, "auto, path, virtual"),
        ({"CHECKPOINT_STORE_URL": "file://relative/x"}, "absolute directory"),
        ({"DATABASE_URL": "mysql://x/y"}, "DATABASE_URL has the scheme 'mysql'"),
        ({"KEEPSTATE_ROLE": "boss"}, "KEEPSTATE_ROLE='boss' is unknown"),
        ({"KEEPSTATE_LEASE_SECONDS": "soon"}, "must be a whole number from 3 to 3600"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(tmp_path: Path, env: dict[str, str], text: str) -> None:
    answer = read(tmp_path, **(KEYS | env))
    assert answer.returncode != 0
    assert text in answer.stderr


def test_the_master_key_may_be_base64(tmp_path: Path) -> None:
    import base64

    answer = read(tmp_path, **KEYS | {"KEEPSTATE_MASTER_KEY": base64.b64encode(b"k" * 32).decode()})
    assert json.loads(answer.stdout)["key"] == (b"k" * 32).hex()


def test_workers_get_timeouts_and_a_pool_and_a_migration_may_take_its_time(tmp_path: Path) -> None:
    worker = values(tmp_path, KEEPSTATE_ROLE="worker")["database"]["OPTIONS"]
    assert "statement_timeout=30000" in worker["options"]
    assert "lock_timeout=" in worker["options"]
    assert "idle_in_transaction_session_timeout=" in worker["options"]
    assert worker["pool"]["max_size"] > 0
    assert worker["tcp_user_timeout"] <= 60_000
    command = values(tmp_path)["database"]["OPTIONS"]
    assert "statement_timeout" not in command["options"]
    assert "pool" not in command


def test_urls_point_at_the_servers_that_they_name(tmp_path: Path) -> None:
    found = values(
        tmp_path,
        DATABASE_URL="postgresql://me:p%40ss@/kept?host=/run/pg&sslmode=disable",
        REDIS_URL="unix:///run/my redis.sock?db=3",
        CHECKPOINT_STORE_URL="file:///srv/kept%20things",
    )
    database = found["database"]
    assert (database["USER"], database["PASSWORD"], database["HOST"], database["NAME"]) == ("me", "p@ss", "/run/pg", "kept")
    assert database["OPTIONS"]["sslmode"] == "disable"
    assert found["broker"] == "redis+socket:///run/my%20redis.sock?virtual_host=3"
    assert found["store"]["location"] == "/srv/kept things"


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter22@bucket/a",
        "s3://bucket/a?endpoint=http://key:hunter22@minio:9000",
        "https://key:hunter22@minio:9000/bucket",
        "s3://bucket/a?secret_key=hunter22",
    ],
)
def test_a_store_url_with_credentials_is_refused_without_repeating_them(tmp_path: Path, url: str) -> None:
    answer = read(tmp_path, **KEYS, CHECKPOINT_STORE_URL=url)
    assert answer.returncode != 0
    assert "CHECKPOINT_STORE_URL" in answer.stderr
    assert "hunter22" not in answer.stderr


def test_an_s3_url_becomes_the_storage_s_options(tmp_path: Path) -> None:
    url = "s3://kept-work/fleet/one?endpoint=https://s3.example:9000&region=eu-1"
    found = values(tmp_path, CHECKPOINT_STORE_URL=url)["store"]
    wanted = {"bucket_name": "kept-work", "location": "fleet/one", "endpoint_url": "https://s3.example:9000", "region_name": "eu-1"}
    assert found.items() >= (wanted | {"addressing_style": "path", "file_overwrite": False}).items()
    assert values(tmp_path, CHECKPOINT_STORE_URL="s3://kept-work", AWS_REGION="us-9")["store"]["region_name"] == "us-9"


def test_s3_credentials_in_a_file_that_others_can_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "s3_credentials"
    file.parent.mkdir()
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = hunter22\n")
    file.chmod(0o644)
    answer = read(tmp_path, **KEYS, CHECKPOINT_STORE_URL="s3://kept-work")
    assert "can be read by others" in answer.stderr
    file.chmod(0o600)
    assert values(tmp_path, CHECKPOINT_STORE_URL="s3://kept-work")["store"]["secret_key"] == "hunter22"
    file.write_text("hunter22\n")
    answer = read(tmp_path, **KEYS, CHECKPOINT_STORE_URL="s3://kept-work")
    assert "has no [default]" in answer.stderr
    assert "hunter22" not in answer.stderr
