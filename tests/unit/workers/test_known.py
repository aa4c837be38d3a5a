"""What a host tells of its cache: what is there, what has gone, and nothing twice."""

from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from workers.cache import files, known
from workers.models import CachedImage, Host
from workers.states import Heat

pytestmark = pytest.mark.django_db(transaction=True)
ROOT, OTHER = "c" * 64, "d" * 64


@pytest.fixture(autouse=True)
def here(transactional_db: None, host: Path, settings: Settings, tmp_path: Path) -> Host:
    settings.KEEPSTATE_IMAGES = tmp_path / "images"
    return Host.objects.create(id="h-unit", memory_bytes=1, cpus=1, boot_id="boot")


def told() -> dict[str, str]:
    return dict(CachedImage.objects.values_list("root", "heat"))


def assembled(root: str) -> Path:
    path = files.place(files.MEMORY, root)
    path.write_bytes(b"memory")
    return path


def test_an_image_is_told_when_it_is_made_and_again_without_harm() -> None:
    known.tell(ROOT)
    known.tell(ROOT)
    assert told() == {ROOT: Heat.HOT}


def test_a_host_that_is_not_registered_tells_nothing_and_fails_nothing() -> None:
    Host.objects.all().delete()
    known.tell(ROOT)
    assert told() == {}


def test_what_came_and_what_went_is_found_and_then_costs_one_query(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    path = assembled(ROOT)
    (settings.KEEPSTATE_IMAGES / "e").mkdir(parents=True)
    (settings.KEEPSTATE_IMAGES / "e" / "image.json").touch()
    known.tell(OTHER)
    known.compare()
    assert told() == {ROOT: Heat.HOT, "e": Heat.IMAGE}
    with django_assert_num_queries(1):
        known.compare()
    path.unlink()
    known.compare()
    assert told() == {"e": Heat.IMAGE}


def test_an_image_whose_packs_stay_is_warm_until_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {ROOT}
    monkeypatch.setattr(known, "_whose_packs_are_here", lambda roots: kept & set(roots))
    monkeypatch.setattr(known, "WARM_SECONDS", -1)
    known.tell(ROOT)
    known.compare()
    assert told() == {ROOT: Heat.WARM}
    known.compare()
    assert told() == {ROOT: Heat.WARM}
    kept.clear()
    known.compare()
    assert told() == {}
