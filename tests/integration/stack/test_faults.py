"""Parts of a whole stack fail under load, with the fake hypervisor: clients that ask again get what they asked for, once."""

import os
import signal
import threading
import urllib.request
from http.client import HTTPException

import pytest

from keepstate_site.client import Client, Refused
from keepstate_site.stack import RunningStack
from tests.integration.stack import stacks
from tests.support.asking import asking, insist
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)
SECONDS = 60.0


@pytest.fixture(scope="module")
def stack(fake_stack: RunningStack) -> RunningStack:
    return fake_stack


@pytest.fixture(scope="module")
def client(stack: RunningStack) -> Client:
    return Client(stack.url, stack.token)


@pytest.fixture(scope="module")
def session(client: Client) -> str:
    return str(client.do("POST", "/api/sessions", {"Image": "tiny"})["id"])


def pid_of(stack: RunningStack, words: str) -> int:
    (pid,) = [pid for command, pid in stacks.children_of(stack.pid).items() if words in command]
    return pid


def test_no_save_fails_while_the_database_is_restarted_and_reads_go_on(stack: RunningStack, client: Client, session: str) -> None:
    ended: list[str] = []

    def save() -> None:
        ended.append(insist(client, "POST", f"/api/sessions/{session}/checkpoint", {"Stop": False}, SECONDS)["state"])

    with asking({"read": lambda: client.get(f"/api/v2/sessions/{session}"), "save": save}) as askers:
        until(lambda: all(one.count_since(0.0) for one in askers.values()), SECONDS, "saves and reads go on")
        before = len(ended)
        os.kill(pid_of(stack, "bin/postgres"), signal.SIGINT)
        until(lambda: len(ended) > before + 2, SECONDS, "saves go on")
    assert set(ended) == {"succeeded"}
    assert set(askers["read"].told(0.0, 0.0)["refusals"]) <= {"503 ks_unavailable", "no answer"}


def test_a_request_whose_web_process_died_is_answered_when_it_is_made_again(stack: RunningStack, client: Client, session: str) -> None:
    key, path = "ksop_in_mid_request", f"/api/sessions/{session}/exec"
    wanted = {"Cmd": "sleep 1; echo once >> told; cat told", "Timeout": 30}
    broken = threading.Event()

    def wait_for_the_outcome() -> None:
        request = urllib.request.Request(stack.url + path, b'{"Cmd": "sleep 1; echo once >> told; cat told", "Timeout": 30}')
        for name, value in (("Authorization", f"Bearer {stack.token}"), ("Idempotency-Key", key), ("Content-Type", "application/json")):
            request.add_header(name, value)
        try:
            urllib.request.urlopen(request, timeout=SECONDS)
        except (OSError, HTTPException):
            broken.set()

    def runs() -> bool:
        try:
            return bool(client.get(f"/api/operations/{key}")["state"] == "running")
        except Refused:
            return False

    waiting = threading.Thread(target=wait_for_the_outcome)
    waiting.start()
    until(runs, SECONDS, "the command runs")
    os.kill(pid_of(stack, "keepstate_site.serve"), signal.SIGKILL)
    waiting.join(SECONDS)
    assert broken.is_set(), "its client had no answer"
    status, answer = client.call("POST", path, wanted, key=key)
    told = client.wait(answer["operation_id"]) if status == 202 else answer
    assert told["stdout"] == "once\n"
