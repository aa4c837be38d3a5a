import fcntl
from pathlib import Path

import pytest

from keepstate_site.stack.doctor import gateway
from keepstate_site.stack.doctor.finding import Verdict


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEEPSTATE_VAR", str(tmp_path))
    for name in gateway.PROVIDERS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_process_that_holds_the_hosts_turn_is_what_serves_and_a_lock_that_nobody_holds_is_not(root: Path) -> None:
    path = root / "host" / "h-one" / "gateway" / "serving.lock"
    path.parent.mkdir(parents=True)
    with open(path, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [found.text for found in gateway.gateway()] == ["a process serves the machines of h-one"]
    assert [found.text for found in gateway.gateway()] == ["does not run, nor does the stack"]


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("http://127.0.0.1:8099", Verdict.OK),
        ("https://models.example", Verdict.OK),
        ("http://models.example", Verdict.WARN),
        ("models.example", Verdict.FAIL),
    ],
)
def test_a_provider_elsewhere_is_named_and_one_without_tls_is_warned_of(
    url: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEPSTATE_OPENAI_URL", url)
    assert [found.verdict for found in gateway.providers()] == [verdict]
