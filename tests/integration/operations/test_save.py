"""A live save: published in one commit, small if little changed, and the machine runs on."""

from checkpoints_app.models import PackEdge
from sessions_app.models import Session
from tests.integration.operations.world import World, events, guest, leftovers, live_machines, objects, pid_of, runs, scribble, succeeded
from workers.host.note import read_note


def test_a_save_publishes_a_row_with_its_sizes_and_moves_the_head(world: World, session: Session) -> None:
    scribble(session, 2, seed=1)
    operation = succeeded(world.ask_save(session))
    session.refresh_from_db()
    checkpoint = session.checkpoints.get()
    assert checkpoint.state == "published"
    assert checkpoint.published_at is not None
    assert (session.head_checkpoint_id, session.head_checkpoint_at) == (checkpoint.id, checkpoint.published_at)
    assert session.runtime_state == "running"
    assert checkpoint.logical_bytes is not None
    assert checkpoint.logical_bytes >= session.memory_bytes
    assert checkpoint.written_bytes is not None
    assert checkpoint.unique_bytes is not None
    assert checkpoint.stored_bytes is not None
    assert checkpoint.written_bytes >= 2 << 20
    assert 2 << 20 <= checkpoint.unique_bytes <= checkpoint.stored_bytes + (1 << 20)
    assert operation.response is not None
    assert operation.response["checkpoint_id"] == checkpoint.id
    assert operation.response["content_manifest_hash"] == checkpoint.content_digest


def test_a_save_holds_an_edge_to_every_pack_it_needs_and_each_is_in_the_store(world: World, session: Session) -> None:
    checkpoint = world.save(session)
    packs = set(PackEdge.objects.filter(checkpoint=checkpoint).values_list("pack_id", flat=True))
    assert packs
    names = {path.rsplit("/", 1)[1] for path in objects()}
    assert packs | {checkpoint.manifest_id} == names


def test_the_history_tells_the_save(world: World, session: Session) -> None:
    world.save(session)
    assert events(session)[-3:] == ["session.checkpointing", "checkpoint.published", "session.running"]


def test_the_machine_is_the_same_process_before_and_after(world: World, session: Session) -> None:
    guest(session, "echo work > note")
    before = pid_of(session)
    world.save(session)
    assert pid_of(session) == before
    assert runs(session)
    assert guest(session, "cat note") == "work"


def test_a_second_save_stores_only_what_is_new_and_names_its_parent(world: World, session: Session) -> None:
    scribble(session, 4, seed=1)
    first = world.save(session)
    scribble(session, 1, seed=2, at_mib=32)
    second = world.save(session)
    assert second.parent_id == first.id
    assert first.unique_bytes is not None
    assert second.unique_bytes is not None
    assert first.unique_bytes >= 4 << 20
    assert 1 << 20 <= second.unique_bytes < 2 << 20


def test_a_save_leaves_neither_staging_nor_half_made_files(world: World, session: Session) -> None:
    world.save(session)
    assert leftovers() == []


def test_a_machine_knows_what_its_next_save_is_a_delta_to(world: World, session: Session) -> None:
    checkpoint = world.save(session)
    assert read_note(world.runtime(session))["checkpoint"] == checkpoint.id


def test_a_save_whose_note_cannot_be_written_is_a_save(world: World, session: Session) -> None:
    (world.runtime(session) / "keepstate.json.tmp").mkdir()  # writing the note fails from now on
    first = world.save(session)
    second = world.save(session)
    assert second.parent_id == first.id
    assert live_machines() == [f"{session.id}.{session.epoch}"]


def test_a_stop_whose_note_cannot_be_written_is_a_stop(world: World, session: Session) -> None:
    (world.runtime(session) / "keepstate.json.tmp").mkdir()
    world.save(session, stop=True)
    assert session.runtime_state == "parked"
