import json
import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keepstate_site.stack.doctor import fleet, installation
from keepstate_site.stack.doctor.finding import Verdict


def test_what_the_fleet_lacks_fails_what_could_not_be_judged_warns_and_the_rest_is_well() -> None:
    rows = [
        {"name": "database", "text": "answers", "problem": False, "doubt": False},
        {"name": "clock", "text": "is +9.0 s off", "problem": False, "doubt": True},
        {"name": "master key", "text": "is not the fleet's", "problem": True, "doubt": False},
    ]
    found = list(fleet.asked([sys.executable, "-c", f"print({json.dumps(rows)!r})"], os.environ))
    assert [(one.name, one.verdict) for one in found] == [
        ("fleet database", Verdict.OK),
        ("fleet clock", Verdict.WARN),
        ("fleet master key", Verdict.FAIL),
    ]


def test_a_fleet_that_cannot_be_asked_is_unknown_and_never_well() -> None:
    (found,) = fleet.asked([sys.executable, "-c", "import sys; sys.exit('no settings')"], os.environ)
    assert (found.verdict, "no settings" in found.text) == (Verdict.UNKNOWN, True)


def test_a_machine_without_servers_is_in_no_fleet_and_nothing_is_made_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTATE_VAR", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (found,) = fleet.fleet()
    assert (found.verdict, list(tmp_path.iterdir())) == (Verdict.OK, [])


def test_the_server_of_an_s3_store_must_accept_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = urlsplit(f"s3://bucket?endpoint=http://127.0.0.1:{server.getsockname()[1]}")
        assert installation.bucket(url).verdict == Verdict.OK
    assert installation.bucket(url).verdict == Verdict.FAIL
