"""What a guest's programs find in their environment."""

import subprocess
from pathlib import Path

from workers.operations.environment import text

CREDENTIAL = "ks-guest-session-code"


def carried_out(tmp_path: Path, *, relay: bool) -> dict[str, str]:
    """As a shell in the guest does; the relay's place is one of the test's."""
    place = tmp_path / "relay"
    if relay:
        place.mkdir()
    script = text(CREDENTIAL).replace("/usr/lib/keepstate/relay", str(place)) + "env"
    lines = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_programs_find_the_relay_and_show_the_sessions_own_credential(tmp_path: Path) -> None:
    found = carried_out(tmp_path, relay=True)
    assert {found[name] for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")} == {"http://127.0.0.1:8790"}
    assert found["OPENAI_BASE_URL"] == "http://127.0.0.1:8790/v1"
    assert {found[name] for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")} == {CREDENTIAL}


def test_where_there_is_no_relay_they_find_the_gateway_itself(tmp_path: Path) -> None:
    assert carried_out(tmp_path, relay=False)["OPENAI_BASE_URL"] == "http://10.0.2.2/v1"


def test_the_outside_is_reached_through_the_gateway_and_models_are_not(tmp_path: Path) -> None:
    found = carried_out(tmp_path, relay=True)
    assert (found["https_proxy"], found["HTTP_PROXY"]) == ("http://10.0.2.2:3128", "http://10.0.2.2:3128")
    assert {"127.0.0.1", "10.0.2.2"} <= set(found["no_proxy"].split(","))


def test_nothing_but_variables_is_left_behind(tmp_path: Path) -> None:
    assert "keepstate_base" not in carried_out(tmp_path, relay=True)
