"""The note beside a machine that runs, in each form that a release has written: the next save goes on from the checkpoint that it names."""

import json
from typing import Any

import pytest

from sessions_app.models import Session
from tests.integration.operations.world import World, guest
from workers.host.note import NAME

#: By the release that wrote it first; CHECKPOINT is the session's newest.
FORMS: dict[str, dict[str, Any]] = {
    "723a860": {"checkpoint": "CHECKPOINT", "overlays": 1, "images": []},
    "9de4ad6": {"checkpoint": "CHECKPOINT", "overlay": "", "images": [], "lazy": ""},
    "9de4ad6 after a flattening": {"checkpoint": "CHECKPOINT", "overlay": "overlay-1.qcow2", "images": []},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_save_goes_on_from_what_the_note_of_an_earlier_release_names(world: World, session: Session, form: dict[str, Any]) -> None:
    first = world.save(session)
    guest(session, "echo kept > note")
    (world.runtime(session) / NAME).write_text(json.dumps(form | {"checkpoint": first.id}))
    second = world.save(session, stop=True)
    assert second.parent_id == first.id
    world.resume(session)
    assert guest(session, "cat note") == "kept"
