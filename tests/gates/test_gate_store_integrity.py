"""Gate: whatever happens to a stored object, what is read is right or refused, and exactly the checkpoints that need it are marked."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import integrity, key, scrub, storage, verify
from checkpoints_app.store import IntegrityError, Kind, MissingObjectError, load_manifest, object_key
from checkpoints_app.store.names import account_key_key
from sessions_app.errors import IntegrityFailed
from tests.store_kit import Content, content
from tests.support.shelf import PACK_UNITS, UNITS, Shelf
from tests.support.shelf_fixtures import on_both, on_each, shelf, store
from tests.support.shelf_places import BucketPlace, StorePlace

__all__ = ["shelf", "store"]

IMAGE = content(UNITS, 1)
PLACES = 6  # over an object's length, the ends among them, that one bit flips at
S3_PLACES = 1  # what is made of the bytes that were read is the same
SABOTAGES = ["nothing is marked", "bad frames are taken for good ones"]


def changed(image: Content, start: int, count: int, seed: int) -> Content:
    after = image.copy()
    after[start : start + count] = content(count, seed)
    return after


def damages(store: StorePlace, whole: bytes) -> Iterator[tuple[str, bytes | None]]:
    """What an object can become: one bit flipped, short, empty, other bytes of the same length, missing (None)."""
    places = S3_PLACES if isinstance(store, BucketPlace) else PLACES
    for number, at in enumerate(np.linspace(0, len(whole) - 1, places, dtype=int).tolist()):
        yield f"bit {number % 8} of byte {at}", whole[:at] + bytes([whole[at] ^ 1 << number % 8]) + whole[at + 1 :]
    for length in (len(whole) - 1, len(whole) // 2, 0):
        yield f"cut to {length} bytes", whole[:length]
    yield "zeros of the same length", bytes(len(whole))
    yield "missing", None


def put(store: StorePlace, name: str, stored: bytes | None) -> None:
    if stored is None:
        store.remove(name)
    else:
        store.replace(name, stored)


class Line:
    """Of two checkpoints of a line one needs the first pack and the other does not; a third has a manifest that builds on no other."""

    def __init__(self, shelf: Shelf):
        self.shelf, session = shelf, shelf.session()
        self.first = shelf.save(session, IMAGE)
        self.second = shelf.save(session, changed(IMAGE, 0, PACK_UNITS, 2), parent=self.first)
        self.third = shelf.save(shelf.session(), changed(IMAGE, 0, PACK_UNITS, 3))

    @property
    def first_pack(self) -> str:
        account_id = self.shelf.account.id
        manifest = load_manifest(storage.backend(), key.keys_to_read(account_id), account_id, self.first.manifest_id)
        return object_key(account_id, Kind.PACK, manifest.referenced_packs[0])

    @property
    def first_manifest(self) -> str:
        return object_key(self.shelf.account.id, Kind.MANIFEST, self.first.manifest_id)

    def states(self) -> list[str]:
        return [Checkpoint.objects.get(id=row.id).state for row in (self.first, self.second, self.third)]

    def suffers(self, store: StorePlace, name: str, corrupt: int) -> list[str]:
        """Each damage in turn, and its end: refused by readers, then marked by the scrub in the first so many, then whole again."""
        rows, whole, met = [self.first, self.second, self.third], store.read(name), list[str]()
        for damage, stored in damages(store, whole):
            put(store, name, stored)
            for row in rows[:corrupt]:
                with pytest.raises((IntegrityError, MissingObjectError)):
                    self.shelf.restore(row)
            for row in rows[corrupt:]:
                assert np.array_equal(self.shelf.restore(row), self.shelf.contents[row.id]), damage
            scrub.run(everything=True)
            assert self.states() == ["corrupt"] * corrupt + ["published"] * (3 - corrupt), damage
            store.replace(name, whole)
            scrub.run(everything=True)
            self.shelf.assert_whole(*rows)
            met.append(damage)
        return met


@on_both
@pytest.mark.gate(
    "store", "a pack that is damaged in any way is refused, and costs exactly the checkpoints that need it, until it is whole again"
)
def test_a_damaged_pack(shelf: Shelf, store: StorePlace, evidence: dict[str, object]) -> None:
    line = Line(shelf)
    evidence["damages"] = len(line.suffers(store, line.first_pack, corrupt=1))


@on_both
@pytest.mark.gate("store", "a manifest that is damaged in any way is refused, and costs exactly the checkpoints that build on it")
def test_a_damaged_manifest(shelf: Shelf, store: StorePlace, evidence: dict[str, object]) -> None:
    line = Line(shelf)
    evidence["damages"] = len(line.suffers(store, line.first_manifest, corrupt=2))


@on_both
@pytest.mark.gate(
    "store", "an account's stored key that is damaged is not believed: reads go on, nothing is saved under it, a missing one comes back"
)
def test_a_damaged_account_key(shelf: Shelf, store: StorePlace, evidence: dict[str, object]) -> None:
    row, name, count = shelf.save(shelf.session(), IMAGE), account_key_key(shelf.account.id, 0), 0
    whole = store.read(name)
    for damage, stored in damages(store, whole):
        put(store, name, stored)
        shelf.assert_whole(row)
        if stored is not None:
            there = store.keys()
            with pytest.raises(IntegrityFailed):
                shelf.save(shelf.session(), content(UNITS, 5))
            assert store.keys() == there, damage
            store.replace(name, whole)
        count += 1
    shelf.assert_whole(shelf.save(shelf.session(), content(UNITS, 5)))
    assert store.read(name) == whole
    evidence["damages"] = count


@on_both
@pytest.mark.gate("store", "the next save of the same content heals a damaged pack, and what was stored for it is exactly what is needed")
@pytest.mark.parametrize("damage", ["flipped", "cut", "longer"])
def test_healing(shelf: Shelf, store: StorePlace, evidence: dict[str, object], damage: str) -> None:
    line = Line(shelf)
    name = line.first_pack
    whole = store.read(name)
    store.replace(name, {"flipped": whole[:-1] + bytes([whole[-1] ^ 1]), "cut": whole[:-5], "longer": whole + b"x"}[damage])
    scrub.run(everything=True)
    if damage != "longer":  # of that no unit is lost, and it has healed by itself
        assert line.states() == ["corrupt", "published", "published"]
    again = shelf.save(shelf.session(), IMAGE)
    scrub.run()
    shelf.assert_whole(line.first, line.second, line.third, again)
    shelf.assert_exact()
    assert store.keys() == {listed.key for listed in storage.backend().list("")}
    evidence["healed"] = damage


@pytest.mark.parametrize(("store", "sabotage"), on_each(SABOTAGES, SABOTAGES[:1]), indirect=["store"])
def test_the_gate_notices(shelf: Shelf, store: StorePlace, monkeypatch: pytest.MonkeyPatch, sabotage: str) -> None:
    line = Line(shelf)
    if sabotage == "nothing is marked":
        monkeypatch.setattr(integrity, "mark", lambda *arguments, **options: False)
    else:
        monkeypatch.setattr(verify, "_bad_units", nothing_is_bad(verify._bad_units))
    with pytest.raises(AssertionError):
        line.suffers(store, line.first_pack, corrupt=1)


def nothing_is_bad(decide: Callable[..., object]) -> Callable[..., object]:
    def decided(*arguments: object) -> object:
        return np.zeros_like(decide(*arguments))

    return decided
