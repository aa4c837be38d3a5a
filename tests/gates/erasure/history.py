"""Any history of saves, forks, deletions, erasures, scrubs and damage, as a state machine over a real store and a real database."""

import secrets

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import erase, key, orphans, scrub, storage, verify
from checkpoints_app.store import IntegrityError, Kind, MissingObjectError, load_manifest, load_pack_index, object_key
from checkpoints_app.store import Manifest as StoredManifest
from sessions_app.models import Account, Session
from tests.store_kit import Content, content
from tests.support.shelf import UNITS, Shelf
from tests.support.shelf_places import StorePlace

POOL = content(30, 8)
which = st.integers(0, 1 << 20)
writes = st.dictionaries(st.integers(0, UNITS - 1), st.integers(-1, len(POOL) - 1), min_size=1, max_size=UNITS)


class History(RuleBasedStateMachine):
    """Ends with live content readable and dead content gone, byte for byte.

    A history begins with one checkpoint, so that every action is possible from the first on; it is named by its number among those that
    are left, so that no action is spent on what is gone.
    """

    def new_place(self) -> StorePlace:
        """An empty one, configured."""
        raise NotImplementedError

    @initialize(full=st.booleans(), written=writes)
    def begin(self, full: bool, written: dict[int, int]) -> None:
        """From an image that is full: what is written later leaves its packs partly needed. Or from an empty one."""
        self.place = self.new_place()
        for model in (PackEdge, ManifestEdge, Pack, Manifest):  # of a history that failed; its store is not looked at any more
            model.objects.all().delete()
        self.shelf = Shelf(Account.objects.create(name=secrets.token_hex(8)))
        key.keys_to_save(self.shelf.account.id)
        self.damaged = False
        self.undetected = False  # damage that no scrub has looked for yet
        self.sound: set[str] = set()  # saved when all damage was known, and nothing was damaged since: these must be whole
        self.rows: list[Checkpoint] = []  # that nobody erased
        image = np.resize(POOL, (UNITS, POOL.shape[1])) if full else np.zeros((UNITS, POOL.shape[1]), np.uint8)
        self._save(self.shelf.session(), None, image, written)

    def _any(self, number: int) -> Checkpoint:
        row = self.rows[number % len(self.rows)]
        row.refresh_from_db()
        return row

    @precondition(lambda self: self.rows)
    @rule(of=which, written=writes)
    def save(self, of: int, written: dict[int, int]) -> None:
        """On the head of a checkpoint's session, if that is whole."""
        session = Session.objects.get(id=self._any(of).session_id)
        parent = Checkpoint.objects.filter(id=session.head_checkpoint_id, state="published").first()
        self._save(session, parent, None, written)

    @precondition(lambda self: self.rows)
    @rule(parent=which, written=writes)
    def fork(self, parent: int, written: dict[int, int]) -> None:
        """A session whose first save is a delta to a checkpoint of another."""
        row = self._any(parent)
        if row.state == "published":
            self._save(self.shelf.session(), row, None, written)

    @precondition(lambda self: self.rows)
    @rule(like=which)
    def the_same_again(self, like: int) -> None:
        """The content of another checkpoint, whatever became of that, in a session of its own: what heals damage."""
        self._keep(self.shelf.save(self.shelf.session(), self.shelf.contents[self._any(like).id]))

    @rule(written=writes)
    def something_else(self, written: dict[int, int]) -> None:
        """A session that begins from nothing."""
        self._save(self.shelf.session(), None, None, written)

    def _save(self, session: Session, parent: Checkpoint | None, image: Content | None, written: dict[int, int]) -> None:
        memory: Content = np.zeros((UNITS, POOL.shape[1]), np.uint8) if image is None else image
        if parent is not None:
            memory = self.shelf.contents[parent.id].copy()
        for place, what in written.items():
            memory[place] = 0 if what == -1 else POOL[what]
        memory[0, :16] = np.frombuffer(secrets.token_bytes(16), np.uint8)  # no two moments are quite the same
        self._keep(self.shelf.save(session, memory, parent=parent))

    def _keep(self, row: Checkpoint) -> None:
        self.rows.append(row)
        if not self.undetected:
            self.sound.add(row.id)

    @precondition(lambda self: self.rows)
    @rule(one=which)
    def erase_one(self, one: int) -> None:
        row = self._any(one)
        erase.erase_checkpoint(row)
        self.rows.remove(row)

    @precondition(lambda self: self.rows)
    @rule(of=which)
    def delete_session(self, of: int) -> None:
        session = Session.objects.get(id=self._any(of).session_id)
        erase.erase_session(session)
        Session.objects.filter(id=session.id).update(runtime_state="deleted")
        self.rows = [row for row in self.rows if row.session_id != session.id]

    @rule(orphans_too=st.booleans())
    def scrub(self, orphans_too: bool) -> None:
        if orphans_too:
            orphans.sweep()
        scrub.run(everything=True)
        self.undetected = False
        bad = Checkpoint.objects.filter(id__in=self.sound, state="corrupt")
        assert not bad.exists(), "a save relied on what was known to be bad"

    @precondition(lambda self: self.rows)
    @rule(one=which)
    def read(self, one: int) -> None:
        """What is read is right or refused; and what was refused is judged."""
        row = self._any(one)
        if row.state != "published":
            return
        try:
            assert np.array_equal(self.shelf.restore(row), self.shelf.contents[row.id]), "a restore gave other bytes"
        except (IntegrityError, MissingObjectError) as error:
            if not self.damaged:
                raise AssertionError(f"refused without any damage: {error}") from error
            verify.refused(row, error, source="test")

    @precondition(lambda self: self.rows)
    @rule(one=which, pack=which, at=which)
    def damage(self, one: int, pack: int, at: int) -> None:
        """One bit of one frame of one of the packs that a checkpoint needs, in the order in which it names them."""
        named = manifest_of(self.shelf, self._any(one)).referenced_packs
        live = Pack.objects.filter(id__in=named, state="live").in_bulk()
        packs = [live[pack_id] for pack_id in named if pack_id in live]
        if packs:
            chosen = packs[pack % len(packs)]
            name = object_key(self.shelf.account.id, Kind.PACK, chosen.id, chosen.generation)
            stored = bytearray(self.place.read(name))
            first = frames_begin(self.shelf, chosen)
            if first < len(stored):
                stored[first + at % (len(stored) - first)] ^= 1 << at % 8
                self.place.replace(name, bytes(stored))
                self.damaged = self.undetected = True
                self.sound.clear()

    @invariant()
    def nothing_dead_is_stored(self) -> None:
        if hasattr(self, "shelf"):
            needed, manifests = self.shelf.needed(self._living())
            stored = self.shelf.stored_units(damaged=True)
            assert stored == needed, f"stored and not needed: {sorted(stored - needed)}; needed and not stored: {sorted(needed - stored)}"
            assert {name.object_id for name in self.shelf.object_names() if name.word == "manifest"} == manifests

    def _living(self) -> list[Checkpoint]:
        return list(Checkpoint.objects.filter(account=self.shelf.account, state__in=["published", "corrupt"]))

    def teardown(self) -> None:
        if not hasattr(self, "shelf"):
            return
        self.scrub(orphans_too=False)
        found = {row.id: row for row in self._living()}
        assert found.keys() == {row.id for row in self.rows}
        live = [found[row.id] for row in self.rows]  # in an order that a repetition has too
        for row in live:
            self._end_of(row)
        alive = {unit.tobytes() for row in live for unit in self.shelf.contents[row.id]}
        assert self.shelf.stored_plain() <= alive, "content of no live checkpoint is in the store"
        for row in live:
            erase.erase_checkpoint(row)
            self.nothing_dead_is_stored()
        assert {name.word for name in self.shelf.object_names()} <= {"key"}, "something is left after everything was erased"
        assert not Pack.objects.filter(account=self.shelf.account).exists()

    def _end_of(self, row: Checkpoint) -> None:
        if row.state == "published":
            try:
                assert np.array_equal(self.shelf.restore(row), self.shelf.contents[row.id]), "a checkpoint restores to other bytes"
            except (IntegrityError, MissingObjectError) as error:
                raise AssertionError(f"a checkpoint is called whole and is refused: {error}") from error
            return
        assert self.damaged, "a checkpoint is called corrupt and nothing was damaged"
        try:
            self.shelf.restore(row)
        except (IntegrityError, MissingObjectError):
            return
        raise AssertionError("a checkpoint is called corrupt and restores")


def manifest_of(shelf: Shelf, row: Checkpoint) -> StoredManifest:
    return load_manifest(storage.backend(), key.keys_to_read(shelf.account.id), shelf.account.id, row.manifest_id)


def frames_begin(shelf: Shelf, pack: Pack) -> int:
    keys = key.keys_to_read(shelf.account.id)
    return int(load_pack_index(storage.backend(), keys, shelf.account.id, pack.id, pack.generation).offsets[0])
