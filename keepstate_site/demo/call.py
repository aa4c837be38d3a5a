"""The demo's second part: a program in the machine streams a long answer; the machine is saved in the middle of it, killed, and resumed.

The provider says the second half while there is no machine. It is the fake one that comes with KeepState, and keeps a bill of its own,
which is what the claims are held against.
"""

import json
import time
import urllib.request
from typing import Any

from keepstate_site.demo.report import ClaimFailed
from keepstate_site.demo.scene import Demo, kill, save
from keepstate_site.demo.work import resume
from keepstate_site.provider.client import FakeProvider

WORDS, HELD_AFTER = 100, 50  # events
WAIT_SECONDS = 60
ANSWER, DONE = "/root/answer.sse", "/root/answer.done"
_STREAMED = {"model": "fake-model", "max_tokens": 4000, "stream": True, "messages": [{"role": "user", "content": "Tell it at length."}]}
_ASKED = {"model": "fake-model", "max_tokens": 400, "messages": [{"role": "user", "content": "And in short?"}]}

#: Knows nothing of KeepState: it uses the environment that any client of the API uses, and has no retry.
_REQUEST = """
import json, os, urllib.request
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01", "content-type": "application/json"}
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", %r, headers)
"""
_STREAM = f"""
with urllib.request.urlopen(request, timeout=120) as answer, open("{ANSWER}", "wb", buffering=0) as file:
    while piece := answer.read1(65536):
        file.write(piece)
open("{DONE}", "w").close()
"""
_WHOLE = """
with urllib.request.urlopen(request, timeout=120) as answer:
    print(json.dumps({"replayed": answer.headers.get("x-keepstate-replayed"), "body": json.load(answer)}))
"""


def calls(demo: Demo, provider: FakeProvider) -> None:
    """Prerequisites: the session runs and its agent works."""
    uncut = _text(_direct(provider, _STREAMED))
    provider.reset()
    provider.script(acts=[{"words": WORDS, "hold": True, "events": HELD_AFTER}])
    _give_key(demo)
    _start_streaming(demo)
    save(demo, len(demo.report.saves) + 1)
    first = _ask(demo)
    kill(demo)
    provider.release()
    demo.report.step("the provider says the second half of the answer, to a machine that is dead")
    resume(demo, len(demo.report.resumes) + 1, None)
    _check_stream(demo, uncut)
    _check_retry(demo, provider, first)


def _give_key(demo: Demo) -> None:
    """The provider's key is registered and bound to the session; the machine never sees it."""
    key = demo.client.do("POST", "/api/v2/keys", {"provider": "anthropic", "secret": "fake-provider-key-0001", "alias": "demo"})
    session = demo.client.get(f"/api/v2/sessions/{demo.session}")
    wanted = {"keys": {"anthropic": key["id"]}, "expected_revision": session["revision"]}
    demo.client.do("POST", f"/api/v2/sessions/{demo.session}/bindings", wanted)
    demo.report.step("a provider's key is registered and bound to the session")


def _start_streaming(demo: Demo) -> None:
    program = _REQUEST % json.dumps(_STREAMED).encode() + _STREAM
    command = ["/bin/sh", "-c", 'python3 -c "$0" >/root/answer.log 2>&1 </dev/null &', program]
    demo.client.do("POST", f"/api/sessions/{demo.session}/exec", {"Argv": command, "Timeout": 20})
    begun = time.monotonic()
    while _events(demo) < HELD_AFTER:
        if time.monotonic() - begun > WAIT_SECONDS:
            raise ClaimFailed(f"a program streams an answer: {demo.client.exec(demo.session, 'cat /root/answer.log')['stdout']}")
        time.sleep(0.1)
    demo.report.step(f"a program in the machine has {HELD_AFTER} events of a long answer, and waits for more", time.monotonic() - begun)


def _check_stream(demo: Demo, uncut: str) -> None:
    begun = time.monotonic()
    while demo.client.exec(demo.session, f"test -e {DONE} && echo done")["stdout"].strip() != "done":
        if time.monotonic() - begun > WAIT_SECONDS:
            raise ClaimFailed(f"the answer ends: {demo.client.exec(demo.session, 'cat /root/answer.log')['stdout']}")
        time.sleep(0.2)
    demo.report.step("the program that was in the middle of the answer has read it to its end", time.monotonic() - begun)
    seen = _text(demo.client.exec(demo.session, f"cat {ANSWER}")["stdout"])
    demo.report.claim("its output is complete, and equal to an uncut run's", seen == uncut, f"{len(seen)} of {len(uncut)} characters")


def _check_retry(demo: Demo, provider: FakeProvider, first: dict[str, Any]) -> None:
    """The call that was made after the save is made again by the machine that went on from before it."""
    again = _ask(demo)
    demo.report.claim("the call that the resumed machine makes again is answered from its record", again["replayed"] == "1", again)
    demo.report.claim("with the very answer of the first time", again["body"] == first["body"])
    bill, meter = provider.bill(), demo.client.get(f"/api/sessions/{demo.session}/meter")
    demo.report.claim(
        "the provider's own bill shows two calls: the stream and the first of the two equal ones", bill["calls"] == 2, bill["calls"]
    )
    tokens = bill["input_tokens"] + bill["output_tokens"]
    demo.report.claim(
        "the session is charged for these two, and nothing for the replay", meter["spent"] == tokens, (meter["spent"], tokens)
    )
    facts = {"upstream_calls": bill["calls"], "tokens": tokens, "replayed_tokens": meter["replayed_tokens"], "replayed_billed": 0}
    demo.report.facts["calls"] = facts


def _ask(demo: Demo) -> dict[str, Any]:
    command = ["python3", "-c", _REQUEST % json.dumps(_ASKED).encode() + _WHOLE]
    done = demo.client.do("POST", f"/api/sessions/{demo.session}/exec", {"Argv": command, "Timeout": 60})
    if done["exit_code"] != 0:
        raise ClaimFailed(f"a call is answered (seen: {done['stderr'][-500:]})")
    told: dict[str, Any] = json.loads(done["stdout"])
    return told


def _events(demo: Demo) -> int:
    return int(demo.client.exec(demo.session, f"cat {ANSWER} 2>/dev/null | grep -c ^event:")["stdout"])


def _direct(provider: FakeProvider, body: dict[str, Any]) -> str:
    provider.script(default={"words": WORDS})
    request = urllib.request.Request(f"{provider.url}/v1/messages", json.dumps(body).encode())  # noqa: S310  our own loopback
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def _text(stream: str) -> str:
    """What a stream of the Messages API says: its text, and that it ended as it must."""
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    said = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    return said + (" <end>" if events and events[-1]["type"] == "message_stop" else " <cut>")
