"""The account's compact index: it names the packs that may hold a unit, is bounded in memory, and is right again whatever is lost of it."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from checkpoints_app.store import Kind, LocalBackend, object_key
from checkpoints_app.store.account_index import AccountIndex
from checkpoints_app.store.compact_index import CompactIndex
from checkpoints_app.store.ids import Ids, type_ids
from checkpoints_app.store.packs import PackIndex
from checkpoints_app.store.reader import load_indexes_of
from checkpoints_app.store.writer import CheckpointWriter
from tests.store_kit import ACCOUNT, FACTS, KEYS, content, pages, restore, save


def ids(count: int, seed: int) -> Ids:
    made: Ids = np.random.default_rng(seed).integers(1, 1 << 63, (count, 4), dtype=np.uint64).astype(type_ids)
    return made


def pack(seed: int, units: int = 100) -> tuple[str, Ids]:
    return f"{seed:064x}", ids(units, seed)


def test_a_unit_is_found_in_the_pack_that_has_it(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    index.add([pack(1), pack(2), pack(3)])
    assert index.candidates(pack(2)[1][50:60]) == [pack(2)[0]]


def test_a_unit_that_no_pack_has_names_none(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    assert index.candidates(ids(10, 9)) == []
    index.add([pack(1)])
    assert index.candidates(ids(10, 9)) == []


def test_the_pack_that_holds_most_comes_first(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    index.add([pack(1), pack(2)])
    assert index.candidates(np.concatenate((pack(1)[1][:3], pack(2)[1][:20]))) == [pack(2)[0], pack(1)[0]]


def test_units_that_a_rewritten_pack_has_lost_are_not_found(tmp_path: Path) -> None:
    name, units = pack(1)
    units[10:20] = 0
    index = CompactIndex(tmp_path)
    index.add([(name, units)])
    assert len(index) == 90
    assert index.candidates(np.zeros((1, 4), type_ids)) == []


def test_many_additions_end_in_few_files_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints_app.store.compact_index.MERGE_BELOW", 0)
    index = CompactIndex(tmp_path)
    for seed in range(1, 65):
        index.add([pack(seed)])
    assert len(list(tmp_path.iterdir())) <= 7
    assert len(index) == 6400
    for seed in (1, 2, 33, 63, 64):
        assert index.candidates(pack(seed)[1]) == [pack(seed)[0]]


def test_it_is_the_same_after_it_was_opened_again(tmp_path: Path) -> None:
    CompactIndex(tmp_path).add([pack(1), pack(2)])
    again = CompactIndex(tmp_path)
    assert again.pack_ids() == {pack(1)[0], pack(2)[0]}
    assert again.candidates(pack(2)[1]) == [pack(2)[0]]


def test_a_pack_that_is_known_is_not_added_twice(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    index.add([pack(1)])
    index.add([pack(1)])
    assert len(index) == 100


def test_what_another_process_added_meanwhile_is_kept(tmp_path: Path) -> None:
    mine, other = CompactIndex(tmp_path), CompactIndex(tmp_path)
    other.add([pack(1)])
    mine.add([pack(2)])
    assert mine.pack_ids() == {pack(1)[0], pack(2)[0]}


def test_a_file_that_another_process_merges_away_while_it_is_opened_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CompactIndex(tmp_path).add([pack(1)])
    looked = os.fstat

    def gone(descriptor: int) -> os.stat_result:
        for path in tmp_path.glob("*.run"):
            path.unlink()
        return looked(descriptor)

    monkeypatch.setattr("checkpoints_app.store.compact_index.os.fstat", gone)
    assert CompactIndex(tmp_path).candidates(pack(1)[1]) == [pack(1)[0]]


def test_packs_that_are_gone_are_forgotten_and_the_others_stay(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    index.add([pack(1), pack(2), pack(3)])
    index.forget({pack(2)[0]})
    assert index.pack_ids() == {pack(1)[0], pack(3)[0]}
    assert index.candidates(pack(2)[1]) == []
    assert index.candidates(pack(3)[1]) == [pack(3)[0]]
    index.forget({pack(1)[0], pack(3)[0]})
    assert len(index) == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "another magic", "longer"])
def test_a_file_that_is_not_whole_is_left_out_and_its_packs_can_be_added_again(tmp_path: Path, damage: str) -> None:
    CompactIndex(tmp_path).add([pack(1)])
    (path,) = tmp_path.glob("*.run")
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "empty": b"", "another magic": b"X" + data[1:], "longer": data + b"\0"}[damage])
    index = CompactIndex(tmp_path)
    assert index.pack_ids() == set()
    index.add([pack(1)])
    assert index.candidates(pack(1)[1]) == [pack(1)[0]]


@pytest.mark.parametrize("before", ["rename", "unlink"])
def test_a_writer_killed_in_the_middle_of_a_merge_loses_no_pack_that_was_known(tmp_path: Path, before: str) -> None:
    CompactIndex(tmp_path).add([pack(1)])
    child = os.fork()
    if child == 0:
        setattr(Path, before, lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL))
        CompactIndex(tmp_path).add([pack(2)])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    index = CompactIndex(tmp_path)
    assert pack(1)[0] in index.pack_ids()
    index.add([pack(2), pack(3)])
    assert index.candidates(pack(2)[1]) == [pack(2)[0]]
    assert len(index) == 300
    assert not list(tmp_path.glob("*.new"))


# -- in a save


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(tmp_path / "store")


def account_index(backend: LocalBackend, compact: CompactIndex) -> AccountIndex:
    return AccountIndex(compact, lambda pack_ids: load_indexes_of(backend, KEYS, ACCOUNT, there(backend, pack_ids)).values())


def there(backend: LocalBackend, pack_ids: Sequence[str]) -> list[str]:
    names = {listed.key for listed in backend.list("")}
    return [pack_id for pack_id in pack_ids if object_key(ACCOUNT, Kind.PACK, pack_id) in names]


def test_a_save_of_another_session_finds_the_content_of_the_first(backend: LocalBackend, tmp_path: Path) -> None:
    memory = content(500)
    first = save(backend, None, memory)
    compact = CompactIndex(tmp_path / "index")
    compact.add([(one.pack_id, first.new_units.ids_of(one.pack_id)) for one in first.new_packs])
    memory[400:] = content(100, seed=8)
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, account_index(backend, compact)) as writer:
        writer.add_image("memory", memory.nbytes, None, pages(memory, np.arange(500)))
        second = writer.finish(FACTS)
    assert second.unique_bytes == 100 * 4096
    assert np.array_equal(restore(backend, second.manifest.manifest_id), memory)


def test_content_of_a_pack_that_is_gone_is_stored_again(backend: LocalBackend, tmp_path: Path) -> None:
    memory = content(50)
    first = save(backend, None, memory)
    compact = CompactIndex(tmp_path / "index")
    compact.add([(one.pack_id, first.new_units.ids_of(one.pack_id)) for one in first.new_packs])
    for listed in list(backend.list("")):
        backend.delete(listed.key)
    with CheckpointWriter(backend, KEYS, ACCOUNT, None, account_index(backend, compact)) as writer:
        writer.add_image("memory", memory.nbytes, None, pages(memory, np.arange(50)))
        second = writer.finish(FACTS)
    assert np.array_equal(restore(backend, second.manifest.manifest_id), memory)


def test_a_hint_that_is_wrong_costs_a_copy_and_no_mistake(backend: LocalBackend, tmp_path: Path) -> None:
    """Ids that share their first 64 bits with units of a pack, and are others."""
    memory = content(50)
    first = save(backend, None, memory)
    compact = CompactIndex(tmp_path / "index")
    (stored,) = first.new_packs
    ids = first.new_units.ids_of(stored.pack_id)
    compact.add([(stored.pack_id, ids)])
    index = account_index(backend, compact)
    alike = ids.copy()
    alike[:, 3] ^= np.uint64(1)
    assert compact.candidates(alike) == [stored.pack_id]
    assert (index.lookup(alike) == -1).all()
    assert (index.lookup(ids) >= 0).all()


def test_a_pack_that_cannot_be_used_is_asked_for_once(tmp_path: Path) -> None:
    compact = CompactIndex(tmp_path)
    compact.add([pack(1)])
    asked: list[str] = []

    def load(pack_ids: Sequence[str]) -> list[PackIndex]:
        asked.extend(pack_ids)
        return []

    index = AccountIndex(compact, load)
    for _ in range(3):
        assert (index.lookup(pack(1)[1]) == -1).all()
    assert asked == [pack(1)[0]]


def test_while_another_process_writes_nothing_is_learned_and_nobody_waits(tmp_path: Path) -> None:
    index = CompactIndex(tmp_path)
    with CompactIndex(tmp_path)._alone(), pytest.raises(BlockingIOError):
        index.add([pack(1)])
    index.add([pack(1)])
    assert index.candidates(pack(1)[1]) == [pack(1)[0]]


def test_large_runs_are_left_apart_so_that_no_addition_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints_app.store.compact_index.MERGE_UP_TO", 250)
    index = CompactIndex(tmp_path)
    for number in range(6):
        index.add([pack(number)])
    assert sorted(len(run.prefixes) for run in index._runs) == [200, 200, 200]
    assert all(index.candidates(pack(number)[1]) == [pack(number)[0]] for number in range(6))
