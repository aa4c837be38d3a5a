"""A path under /api with a newline in it matched no route, not even the last one, and was answered in HTML."""

import pytest

from tests.support.api import Caller


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/operations/%0A", "/api/v2/sessions/%0A", "/api/%0A"])
def test_a_newline_in_a_path_gets_a_typed_answer(api: Caller, path: str) -> None:
    assert api("GET", path).json()["error"]
