"""deploy/alerts.yml: what it watches exists, and each alarm leads to what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.cache import caches
from django.db.models.functions import Now
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from checkpoints_app.models import Sweep
from keepstate_site.observe import health
from tests.support.fixtures import doorbells, owner
from tests.support.fleet import Tenant
from workers.models import Host

__all__ = ["doorbells", "owner"]
PROJECT = Path(__file__).resolve().parents[2]
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROJECT / "deploy" / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
_SELECTOR = re.compile(r"(keepstate_\w+)(?:\{([^}]*)\})?")


@pytest.fixture
def scraped(client: Client, owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    caches["process"].clear()
    monkeypatch.setattr(health.BROKER, "ask", lambda: None)
    Sweep.objects.create(name="sweep", finished_at=Now())
    Host.objects.update(disk_bytes=2, disk_free_bytes=1, observed_at=Now())
    text = client.get("/metrics").content.decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def selected(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    for name, matchers in _SELECTOR.findall(rule["expr"]):
        yield name, dict(re.findall(r'(\w+)="([^"]*)"', matchers))


def grouped(rule: dict[str, Any]) -> set[str]:
    return set(re.findall(r"by \((\w+)\)", rule["expr"]))


def slugs(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_metric_and_label_that_an_alarm_names_is_in_a_scrape(scraped: list[Sample]) -> None:
    assert len(RULES) > 10
    for rule in RULES:
        found = list(selected(rule))
        assert found, rule["alert"]
        for name, labels in found:
            fits = [one for one in scraped if one.name == name and labels.items() <= one.labels.items()]
            assert fits, (rule["alert"], name, labels)
            assert all(grouped(rule) <= set(one.labels) for one in fits), (rule["alert"], name)


def test_every_label_that_an_alarm_tells_is_one_that_it_keeps() -> None:
    for rule in RULES:
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= grouped(rule), rule["alert"]


def test_every_alarm_leads_to_a_heading_that_is_there() -> None:
    for rule in RULES:
        page, _, heading = rule["annotations"]["runbook"].partition("#")
        assert heading in slugs(PROJECT / page), rule["alert"]
