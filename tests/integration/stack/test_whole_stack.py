"""The whole stack as `./keepstate up` runs it, with the fake hypervisor: what it serves, and that it carries on."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from keepstate_site.settings.queue import broker_url
from keepstate_site.stack import RunningStack, credentials, running, services
from keepstate_site.stack.paths import Paths
from tests.integration.stack import stacks
from tests.support.waiting import until, until_gone

pytestmark = pytest.mark.timeout(240)
FAKE = {"KEEPSTATE_MACHINE_DRIVER": "fake", "KEEPSTATE_DEAF_SECONDS": "10"}


@pytest.fixture(scope="module")
def stack(root: Path) -> Iterator[RunningStack]:
    with running(root, env=FAKE) as started:
        yield started


def get(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, dict(refused.headers), refused.read().decode()


def test_the_process_and_its_parts_say_that_they_are_ready(stack: RunningStack) -> None:
    assert get(f"{stack.url}/healthz")[0] == 200
    status, _, body = get(f"{stack.url}/readyz")
    parts = {"database": True, "broker": True, "store": True, "workers": True, "gateway": True, "master_key": True, "sweeps": True}
    assert (status, json.loads(body)) == (200, {"status": "ready", **parts, "late_sweeps": []})


def test_pages_load_nothing_from_elsewhere(stack: RunningStack) -> None:
    for page in ("/api/docs", "/admin/login/"):
        status, headers, body = get(stack.url + page)
        assert status == 200
        links = re.findall(r'(?:src|href)="([^"]+)"', body)
        assert links
        assert all(link.startswith(("/", "#")) for link in links)
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert get(stack.url + next(link for link in links if link.endswith(".css")))[0] == 200


def test_every_answer_carries_its_request_id(stack: RunningStack) -> None:
    assert get(f"{stack.url}/healthz", **{"X-Request-Id": "req_mine_1234"})[1]["x-request-id"] == "req_mine_1234"
    assert get(f"{stack.url}/healthz", **{"X-Request-Id": "not; plain"})[1]["x-request-id"].startswith("req_")


def test_a_foreign_host_name_is_refused(stack: RunningStack) -> None:
    assert get(f"{stack.url}/api/docs", Host="elsewhere.example")[0] == 400


def test_the_login_and_the_token_are_kept_private_and_never_logged(stack: RunningStack) -> None:
    paths = Paths(stack.root)
    logins = credentials.kept(paths)
    assert logins
    assert logins.password
    for file in paths.secrets.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
    logs = {file: file.read_text(errors="replace") for file in paths.logs.glob("*.log") if file.name != "stack.log"}
    assert logs
    for secret in (logins.password, stack.token, (paths.secrets / "master_key").read_text().strip()):
        assert [file for file, text in logs.items() if secret in text] == []


def worker(stack: RunningStack, kind: str) -> int | None:
    return next((pid for command, pid in stacks.children_of(stack.pid).items() if f"run_worker {kind}" in command), None)


def test_a_worker_that_is_killed_comes_back(stack: RunningStack) -> None:
    before = worker(stack, "control")
    assert before
    os.kill(before, signal.SIGKILL)
    until(lambda: worker(stack, "control") not in (None, before), 60, "another worker runs")


def test_a_worker_that_hears_nothing_any_more_ends_itself_and_comes_back(stack: RunningStack) -> None:
    before, host = worker(stack, "io"), (stack.root / "host_id").read_text().strip()
    home = services.find(stack.root).home
    assert home
    with Celery(broker=broker_url(home.redis_url)) as broker:
        told = broker.control.cancel_consumer(f"io.{host}", destination=[f"io@{host}"], reply=True, timeout=20)
    assert "no longer consuming" in str(told)
    until(lambda: worker(stack, "io") not in (None, before), 60, "another worker runs")
    assert "hears nothing" in next(Paths(stack.root).logs.glob("worker-io@*.log")).read_text()


def test_a_killed_stack_leaves_no_process_and_starts_again_with_its_login(stack: RunningStack) -> None:
    """The last one: it kills the stack of all the others."""
    children = stacks.children_of(stack.pid)
    assert len(children) >= 8
    os.kill(stack.pid, signal.SIGKILL)
    for pid in children.values():
        until_gone(pid, 60)
    with running(stack.root, env=FAKE) as again:
        assert (again.token, again.account_id) == (stack.token, stack.account_id)
