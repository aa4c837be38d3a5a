"""Any history of saves, forks, deletions, erasures, scrubs and damage, as a state machine over a real store and a real database."""

import secrets
from pathlib import Path

import numpy as np
from django.conf import settings
from django.test.signals import setting_changed
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from checkpoints_app.models import Checkpoint, Manifest, ManifestEdge, Pack, PackEdge
from checkpoints_app.services import erase, key, orphans, scrub, storage, verify
from checkpoints_app.store import IntegrityError, Kind, MissingObjectError, load_pack_index, object_key
from sessions_app.models import Account, Session
from tests.store_kit import Content, content
from tests.support.shelf import UNITS, Shelf

POOL = content(30, 8)
places = st.integers(0, UNITS - 1)
writes = st.dictionaries(places, st.integers(-1, len(POOL) - 1), min_size=1, max_size=UNITS)


class History(RuleBasedStateMachine):
    """Ends with live content readable and dead content gone, byte for byte."""

    sessions = Bundle("sessions")
    checkpoints = Bundle("checkpoints")

    @initialize(target=sessions)
    def begin(self) -> Session:
        settings.STORAGES["checkpoints"]["OPTIONS"]["location"] = str(self.directory() / secrets.token_hex(8))
        renew_storages()
        for model in (PackEdge, ManifestEdge, Pack, Manifest):  # of a history that failed; its store is not looked at any more
            model.objects.all().delete()
        self.shelf = Shelf(Account.objects.create(name=secrets.token_hex(8)))
        key.keys_to_save(self.shelf.account.id)
        self.damaged = False
        self.undetected = False  # damage that no scrub has looked for yet
        self.sound: set[str] = set()  # saved when all damage was known, and nothing was damaged since: these must be whole
        return self.shelf.session()

    def directory(self) -> Path:
        raise NotImplementedError

    @rule(target=sessions)
    def another_session(self) -> Session:
        return self.shelf.session()

    @rule(target=checkpoints, session=sessions, written=writes)
    def save(self, session: Session, written: dict[int, int]):
        """On the session's head, if it has one and that is whole."""
        if not Session.objects.filter(id=session.id).exclude(runtime_state="deleted").exists():
            return multiple()
        session.refresh_from_db()
        parent = Checkpoint.objects.filter(id=session.head_checkpoint_id, state="published").first()
        return self._save(session, parent, written)

    @rule(target=checkpoints, parent=checkpoints, written=writes)
    def fork(self, parent: Checkpoint, written: dict[int, int]):
        """A session whose first save is a delta to a checkpoint of another."""
        parent.refresh_from_db()
        return self._save(self.shelf.session(), parent, written) if parent.state == "published" else multiple()

    @rule(target=checkpoints, like=checkpoints)
    def the_same_again(self, like: Checkpoint):
        """The content of an earlier checkpoint, whatever became of that, in a session of its own: what heals damage."""
        session = self.shelf.session()
        return self._keep(self.shelf.save(session, self.shelf.contents[like.id]))

    def _save(self, session: Session, parent: Checkpoint | None, written: dict[int, int]) -> Checkpoint:
        memory: Content = self.shelf.contents[parent.id].copy() if parent else np.zeros((UNITS, POOL.shape[1]), np.uint8)
        for place, what in written.items():
            memory[place] = 0 if what == -1 else POOL[what]
        memory[0, :16] = np.frombuffer(secrets.token_bytes(16), np.uint8)  # no two moments are quite the same
        return self._keep(self.shelf.save(session, memory, parent=parent))

    def _keep(self, row: Checkpoint) -> Checkpoint:
        if not self.undetected:
            self.sound.add(row.id)
        return row

    @rule(row=consumes(checkpoints))
    def erase_one(self, row: Checkpoint) -> None:
        erase.erase_checkpoint(row)

    @rule(session=consumes(sessions))
    def delete_session(self, session: Session) -> None:
        erase.erase_session(session)
        Session.objects.filter(id=session.id).update(runtime_state="deleted")

    @rule()
    def scrub(self) -> None:
        scrub.run(everything=True)
        self.undetected = False
        bad = Checkpoint.objects.filter(id__in=self.sound, state="corrupt")
        assert not bad.exists(), "a save relied on what was known to be bad"

    @rule()
    def look_for_orphans(self) -> None:
        orphans.sweep()

    @rule(row=checkpoints)
    def read(self, row: Checkpoint) -> None:
        """What is read is right or refused; and what was refused is judged."""
        row.refresh_from_db()
        if row.state != "published":
            return
        try:
            assert np.array_equal(self.shelf.restore(row), self.shelf.contents[row.id]), "a restore gave other bytes"
        except (IntegrityError, MissingObjectError) as error:
            if not self.damaged:
                raise AssertionError(f"refused without any damage: {error}") from error
            verify.refused(row, error, source="test")

    @rule(which=st.integers(0, 1 << 20), at=st.integers(0, 1 << 20))
    def damage(self, which: int, at: int) -> None:
        """One bit of one frame of one pack."""
        packs = sorted(Pack.objects.filter(account=self.shelf.account, state="live").values_list("id", "generation"))
        if packs:
            pack_id, generation = packs[which % len(packs)]
            file = self.shelf.path(object_key(self.shelf.account.id, Kind.PACK, pack_id, generation))
            stored = bytearray(file.read_bytes())
            first = frames_begin(self.shelf, pack_id, generation)
            if first < len(stored):
                stored[first + at % (len(stored) - first)] ^= 1 << at % 8
                file.write_bytes(stored)
                self.damaged = self.undetected = True
                self.sound.clear()

    @invariant()
    def nothing_dead_is_stored(self) -> None:
        if hasattr(self, "shelf"):
            live = Checkpoint.objects.filter(account=self.shelf.account, state__in=["published", "corrupt"])
            needed, manifests = self.shelf.needed(list(live))
            assert self.shelf.stored_units(damaged=True) == needed, "the store does not hold exactly the units that are needed"
            assert {name.object_id for name in self.shelf.object_names() if name.word == "manifest"} == manifests

    def teardown(self) -> None:
        if not hasattr(self, "shelf"):
            return
        self.scrub()
        live = list(Checkpoint.objects.filter(account=self.shelf.account, state__in=["published", "corrupt"]))
        for row in live:
            self._end_of(row)
        alive = {unit.tobytes() for row in live for unit in self.shelf.contents[row.id]}
        assert self.shelf.stored_plain() <= alive, "content of no live checkpoint is in the store"
        for row in live:
            erase.erase_checkpoint(row)
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


def frames_begin(shelf: Shelf, pack_id: str, generation: int) -> int:
    keys = key.keys_to_read(shelf.account.id)
    return int(load_pack_index(storage.backend(), keys, shelf.account.id, pack_id, generation).offsets[0])


def renew_storages() -> None:
    """The process's storages follow the settings only when they are told."""
    setting_changed.send(sender=type(settings), setting="STORAGES", value=settings.STORAGES, enter=True)
    storage.backend.cache_clear()
