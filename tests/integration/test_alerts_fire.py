"""deploy/alerts.yml in Prometheus' own hands: each alarm is given figures on either side of what it watches for.

Not installed by `./keepstate setup`, for promtool comes with all of Prometheus (94 MiB): `apt-get install prometheus`, then this file.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES_FILE = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yml"
RULES: list[dict[str, Any]] = [rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]]
SCRAPE_SECONDS = 15
#: By alarm: what a scrape has that must fire it, what must not, and the labels that the alarm is to have.
CASES: dict[str, tuple[dict[str, float], dict[str, float], dict[str, str]]] = {
    "KeepStateNoMetrics": ({}, {'keepstate_sweep_late{sweep="tick"}': 0}, {}),
    "KeepStateBrokerSilent": ({'keepstate_answers{part="broker"}': 0}, {'keepstate_answers{part="store"}': 0}, {}),
    "KeepStateStoreSilent": ({'keepstate_answers{part="store"}': 0}, {'keepstate_answers{part="broker"}': 0}, {}),
    "KeepStateSweepLate": ({'keepstate_sweep_late{sweep="tick"}': 1}, {'keepstate_sweep_late{sweep="tick"}': 0}, {"sweep": "tick"}),
    "KeepStateSweepFailed": ({'keepstate_sweep_failed{sweep="tick"}': 1}, {'keepstate_sweep_failed{sweep="tick"}': 0}, {"sweep": "tick"}),
    "KeepStateHostSilent": ({'keepstate_hosts{state="silent"}': 1}, {'keepstate_hosts{state="resting"}': 1}, {}),
    "KeepStateHostLost": ({'keepstate_hosts{state="lost"}': 1}, {'keepstate_hosts{state="retired"}': 1}, {}),
    "KeepStateHostDeaf": ({'keepstate_hosts{state="deaf"}': 1}, {'keepstate_hosts{state="alive"}': 1}, {}),
    "KeepStateHostVmSilent": ({'keepstate_hosts{state="vm_silent"}': 1}, {'keepstate_hosts{state="alive"}': 1}, {}),
    "KeepStateNoGateway": ({"keepstate_hosts_without_gateway": 1}, {"keepstate_hosts_without_gateway": 0}, {}),
    "KeepStateOperationStuck": (
        {'keepstate_operation_oldest_seconds{state="running"}': 14401},
        {'keepstate_operation_oldest_seconds{state="running"}': 14400, 'keepstate_operation_oldest_seconds{state="queued"}': 14401},
        {},
    ),
    "KeepStateOperationUnheard": (
        {'keepstate_operation_oldest_seconds{state="queued"}': 121},
        {'keepstate_operation_oldest_seconds{state="queued"}': 120, 'keepstate_operation_oldest_seconds{state="running"}': 121},
        {},
    ),
    "KeepStateOperationWaits": (
        {"keepstate_operation_waiting_oldest_seconds": 601},
        {"keepstate_operation_waiting_oldest_seconds": 600},
        {},
    ),
    "KeepStateLeasesExpired": ({"keepstate_operation_leases_expired": 1}, {"keepstate_operation_leases_expired": 0}, {}),
    "KeepStatePinsUnheld": ({"keepstate_pins_unheld": 7}, {"keepstate_pins_unheld": 0}, {}),
    "KeepStateCorrupt": ({'keepstate_corrupt{what="pack"}': 1}, {'keepstate_corrupt{what="pack"}': 0}, {"what": "pack"}),
    "KeepStateScrubBehind": ({"keepstate_scrub_behind": 1}, {"keepstate_scrub_behind": 0}, {}),
    "KeepStateHostDisk": (
        {'keepstate_host_disk_free_bytes{host="h-1"}': 9, 'keepstate_host_disk_bytes{host="h-1"}': 100},
        {'keepstate_host_disk_free_bytes{host="h-1"}': 10, 'keepstate_host_disk_bytes{host="h-1"}': 100},
        {"host": "h-1"},
    ),
}


def test_each_alarm_has_a_case() -> None:
    assert [rule["alert"] for rule in RULES] == list(CASES)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed, so its promtool did not judge the alarms")
def test_each_alarm_fires_on_its_condition_once_that_has_lasted_and_on_nothing_less(tmp_path: Path) -> None:
    cases = [case for rule in RULES for case in _cases(rule)]
    assert len(cases) == 2 * len(RULES)
    file = tmp_path / "alerts.test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES_FILE)], "evaluation_interval": f"{SCRAPE_SECONDS}s", "tests": cases}))
    answer = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def _cases(rule: dict[str, Any]) -> list[dict[str, Any]]:
    fires, does_not, labels = CASES[rule["alert"]]
    lasts = _seconds(rule.get("for", "0s"))
    summary = rule["annotations"]["summary"].replace("{{ $value }}", _plain(fires))
    for name, value in labels.items():
        summary = summary.replace(f"{{{{ $labels.{name} }}}}", value)
    told = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": {**rule["annotations"], "summary": summary}}
    early = [_at(rule, lasts - SCRAPE_SECONDS, [])] if lasts else []
    return [
        {"interval": f"{SCRAPE_SECONDS}s", "input_series": _series(fires), "alert_rule_test": [*early, _at(rule, lasts, [told])]},
        {"interval": f"{SCRAPE_SECONDS}s", "input_series": _series(does_not), "alert_rule_test": [_at(rule, lasts + 60, [])]},
    ]


def _at(rule: dict[str, Any], seconds: int, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"eval_time": f"{seconds}s", "alertname": rule["alert"], "exp_alerts": alerts}


def _series(figures: dict[str, float]) -> list[dict[str, str]]:
    """The same figure at every scrape of five hours."""
    return [{"series": name, "values": f"{value}+0x{5 * 3600 // SCRAPE_SECONDS}"} for name, value in figures.items()]


def _plain(figures: dict[str, float]) -> str:
    return str(next(iter(figures.values()), ""))


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
