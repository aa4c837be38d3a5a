"""Claim: a save whose compression or memory errs is refused before anything of it counts."""

from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import IntegrityError, LocalBackend, codec, packs
from tests.store_kit import content, restore, save

pytestmark = pytest.mark.gate
MEMORY = content(200)


def compressor_that_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    right = codec.compress
    monkeypatch.setattr(packs, "compress_all", lambda pieces: [right(bytes(plain[:-1]) + bytes([plain[-1] ^ 1])) for plain in pieces])


def save_is_refused_or_restores(backend: LocalBackend) -> None:
    """The claim: either nothing is stored, or what is stored is right."""
    try:
        saved = save(backend, None, MEMORY)
    except IntegrityError:
        assert list(backend.list("")) == []
        return
    try:
        assert np.array_equal(restore(backend, saved.manifest.manifest_id), MEMORY)
    except IntegrityError as error:
        raise AssertionError(f"a checkpoint was saved that cannot be restored: {error}") from error


def test_a_save_with_a_compressor_that_errs_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compressor_that_errs(monkeypatch)
    save_is_refused_or_restores(LocalBackend(tmp_path))


def test_a_save_from_a_buffer_that_changes_after_hashing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = packs.encode_pack

    def encode_what_changed(sealer, plain, ids):
        plain[5] ^= 1
        return right(sealer, plain, ids)

    monkeypatch.setattr(packs, "encode_pack", encode_what_changed)
    save_is_refused_or_restores(LocalBackend(tmp_path))


def test_the_gate_notices_when_the_check_is_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compressor_that_errs(monkeypatch)
    monkeypatch.setattr(packs, "verify_encoded", lambda opener, id_key, encoded: None)
    with pytest.raises(AssertionError, match="cannot be restored"):
        save_is_refused_or_restores(LocalBackend(tmp_path))
