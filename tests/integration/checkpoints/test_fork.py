"""A fork's share of a checkpoint: held by edges of its own, erased exactly, known to a repair."""

from django.db import transaction

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import erase, fork, rebuild
from checkpoints_app.store.names import erased_mark_key
from sessions_app.models import Account, Session
from sessions_app.services import fork as forks
from tests.integration.checkpoints.test_rebuild import forget_everything
from tests.store_kit import content
from tests.support.shelf import UNITS, Shelf

IMAGE = content(UNITS, 1)


def forked(shelf: Shelf, row: Checkpoint, count: int = 1) -> list[Checkpoint]:
    with transaction.atomic():
        children = [forks.create_child(row.session, forks.child_id(row.id, number), source="test", facts={}) for number in range(count)]
        made = fork.share(row, children)
    shelf.contents |= {one.id: shelf.contents[row.id] for one in made}
    return made


def test_a_fork_stores_nothing_and_its_children_are_whole(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    before = shelf.object_names()
    made = forked(shelf, row, 8)
    assert shelf.object_names() == before
    shelf.assert_whole(row, *made)
    assert {one.session.head_checkpoint_id for one in made} == {one.id for one in made}
    assert {(one.unique_bytes, one.content_digest, one.parent_id) for one in made} == {(0, row.content_digest, row.id)}


def test_whichever_of_them_is_erased_the_others_are_whole_until_the_last_one_leaves_nothing(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    one, two = forked(shelf, row, 2)
    left = [row, one, two]
    for erased in (row, two, one):
        erase.erase_session(erased.session)
        left.remove(erased)
        shelf.assert_whole(*left)
        shelf.assert_exact()
    assert [name.word for name in shelf.object_names()] == ["key"]


def test_a_manifest_is_marked_as_erased_when_the_last_of_them_is_and_another_builds_on_it(shelf: Shelf) -> None:
    session = shelf.session()
    row = shelf.save(session, IMAGE)
    (child,) = forked(shelf, row)
    after = IMAGE.copy()
    after[4:24] = content(20, 2)
    second = shelf.save(session, after, parent=row)
    mark = shelf.path(erased_mark_key(shelf.account.id, row.manifest_id))
    erase.erase_checkpoint(row)
    assert not mark.exists()
    erase.erase_checkpoint(child)
    assert mark.exists()
    shelf.assert_whole(second)


def test_a_repair_gives_a_fork_its_edges_again_although_its_parent_was_erased(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    (child,) = forked(shelf, row)
    erase.erase_checkpoint(row)
    for model in (PackEdge, ManifestEdge, Pack, Manifest):
        model.objects.all().delete()
    assert rebuild.rebuild().problems == []
    shelf.assert_whole(child)
    shelf.assert_exact()


def test_onto_an_empty_database_what_a_fork_held_comes_back_as_its_parents(shelf: Shelf) -> None:
    row = shelf.save(shelf.session(), IMAGE)
    (child,) = forked(shelf, row)
    erase.erase_checkpoint(row)
    forget_everything()
    rebuild.rebuild()
    shelf.account = Account.objects.get()
    found = Checkpoint.objects.get()
    assert (found.id, Session.objects.get().id) == (row.id, row.session_id)
    shelf.contents[found.id] = shelf.contents[child.id]
    shelf.assert_whole(found)
