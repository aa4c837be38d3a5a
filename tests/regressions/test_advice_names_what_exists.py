"""Refusals advised `./keepstate images`, which is no command, and a route with its placeholder unfilled: advice names what is there."""

import re
from pathlib import Path

import pytest
from django.urls import Resolver404, resolve

ROOT = Path(__file__).parents[2]
PRODUCT = [
    path for room in ("sessions_app", "checkpoints_app", "workers", "keepstate_site") for path in sorted((ROOT / room).rglob("*.py"))
]
TEXTS = [*PRODUCT, ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_command_that_a_text_names_is_one_of_the_launchers() -> None:
    launcher = (ROOT / "keepstate").read_text()
    known = set(re.findall(r"^ {4}([a-z][a-z |]*)\)", launcher, re.MULTILINE))
    commands = {word.strip() for line in known for word in line.split("|")} | {"help"}
    named = {(path.name, word) for path in TEXTS for word in re.findall(r"\./keepstate ([a-z]+)", path.read_text())}
    assert {"demo", "doctor"} <= {word for _, word in named}
    assert {(where, word) for where, word in named if word not in commands} == set()


def routes() -> list[str]:
    """Routes in next_action texts, with what is filled in at run time replaced by an id."""
    route = re.compile(r"(?:GET|POST|DELETE) (/api/[^\s\"'?,.)]*(?:\{[^}]*\}[^\s\"'?,)]*)*)")
    found = {named for path in PRODUCT for named in route.findall(path.read_text())}
    return sorted(re.sub(r"\{[^}]*\}|<[^>]*>", "0" * 32, named).rstrip(".") for named in found)


@pytest.mark.parametrize("route", routes())
def test_every_route_that_a_text_names_is_served(route: str) -> None:
    try:
        served = resolve(route).url_name or ""
    except Resolver404:
        served = "nothing"
    assert not served.startswith(("not-served", "nothing")), route


def test_no_text_shows_a_placeholder_that_was_to_be_filled() -> None:
    left = re.compile(r"(?<!f)\"[^\"\n{]*/api/[^\"\n]*\{[a-z_.]+\}")
    texts = [path for path in PRODUCT if "api" not in path.parts and path.name != "capability_rows.py"]  # its routes are patterns
    assert [path.name for path in texts if left.search(path.read_text())] == []
