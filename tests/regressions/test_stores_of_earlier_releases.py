"""A store as an earlier release has written it, byte for byte: a save and the delta to it. What was saved once is restored for ever."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from checkpoints_app.store import LocalBackend, load_manifest
from tests.store_kit import ACCOUNT, KEYS, content, restore, save

SAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "released" / "store.json").read_text())


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    for name, text in SAMPLE["objects"].items():
        file = tmp_path / "store" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(text))
    return LocalBackend(tmp_path / "store")


@pytest.mark.parametrize("saved", SAMPLE["checkpoints"], ids=["whole", "delta"])
def test_a_checkpoint_of_an_earlier_release_is_restored_as_it_was(backend: LocalBackend, saved: dict[str, str]) -> None:
    assert load_manifest(backend, KEYS, ACCOUNT, saved["manifest"]).digest == saved["digest"]
    assert hashlib.sha256(restore(backend, saved["manifest"]).tobytes()).hexdigest() == saved["memory_sha256"]


def test_a_save_goes_on_from_it(backend: LocalBackend) -> None:
    parent = load_manifest(backend, KEYS, ACCOUNT, SAMPLE["checkpoints"][-1]["manifest"])
    memory = restore(backend, parent.manifest_id)
    memory[3] = content(1)[0]
    child = save(backend, parent, memory, [3]).manifest
    assert child.ancestors[0] == parent.manifest_id
    assert (restore(backend, child.manifest_id) == memory).all()
