"""What every backend of the checkpoint store must do. A subclass gives the `backend` fixture: an empty one, for each test."""

import threading

import pytest

from checkpoints_app.store import Backend, MissingObjectError, ObjectExistsError
from checkpoints_app.store.backends.backend import Listed

A = "accounts/one/packs/aa11"
B = "accounts/one/packs/aa22"
OTHER = "accounts/two/packs/aa11"
BAD_KEYS = ("", "/", "/etc/passwd", "a/../b", "..", "a//b", "a/", ".hidden", "a/.b", "a\0b", "a b", "ä", "a\n", "x" * 513)


class BackendSuite:
    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    def test_an_object_reads_back_as_it_was_put(self, backend):
        assert backend.put_if_absent(A, [b"one", bytearray(b"two"), memoryview(b"three")]) == 11
        assert b"".join(backend.stream(A, 4)) == b"onetwothree"
        assert backend.size(A) == 11

    def test_an_empty_object_is_an_object(self, backend):
        backend.put_if_absent(A, [])
        assert (backend.size(A), list(backend.stream(A)), backend.read(A, 0, 9)) == (0, [], b"")

    def test_a_range_is_read_and_ends_where_the_object_does(self, backend):
        backend.put_if_absent(A, [b"0123456789"])
        assert [backend.read(A, *span) for span in ((0, 4), (3, 4), (8, 4), (10, 4), (99, 1))] == [b"0123", b"3456", b"89", b"", b""]

    def test_a_head_tells_the_whole_size(self, backend):
        backend.put_if_absent(A, [b"0123456789"])
        short, long = backend.head(A, 3), backend.head(A, 1 << 40)
        assert (short.data, short.object_bytes, long.data, long.object_bytes) == (b"012", 10, b"0123456789", 10)

    def test_a_taken_key_is_refused_and_its_object_stays(self, backend):
        backend.put_if_absent(A, [b"first"])
        with pytest.raises(ObjectExistsError):
            backend.put_if_absent(A, [b"second"])
        assert backend.read(A, 0, 99) == b"first"

    def test_of_two_writers_of_one_key_one_wins(self, backend):
        outcomes: list[str] = []
        start = threading.Barrier(8)

        def put(text: str) -> None:
            start.wait()
            try:
                backend.put_if_absent(A, [text.encode()])
                outcomes.append(text)
            except ObjectExistsError:
                pass

        writers = [threading.Thread(target=put, args=(f"writer {number}",)) for number in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [text.encode() for text in outcomes] == [backend.read(A, 0, 99)]

    @pytest.mark.parametrize("action", ["read", "head", "size", "stream"])
    def test_a_missing_object_is_named(self, backend, action):
        arguments = {"read": (0, 1), "head": (1,)}.get(action, ())
        with pytest.raises(MissingObjectError, match="aa11"):
            list(getattr(backend, action)(A, *arguments))

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_key_that_could_leave_its_place_is_refused(self, backend, key):
        calls = (
            lambda: backend.put_if_absent(key, [b"x"]),
            lambda: backend.read(key, 0, 1),
            lambda: backend.head(key, 1),
            lambda: backend.size(key),
            lambda: list(backend.stream(key)),
            lambda: backend.delete(key),
            lambda: backend.batch().put(key, [b"x"]),
        )
        for call in calls:
            with pytest.raises(ValueError, match="object key"):
                call()
        assert list(backend.list("")) == []

    def test_a_listing_tells_all_below_a_prefix_with_sizes(self, backend):
        for key in (A, B, OTHER):
            backend.put_if_absent(key, [key.encode()])
        assert sorted(backend.list("accounts/one/"), key=lambda listed: listed.key) == [Listed(A, len(A)), Listed(B, len(B))]
        assert {listed.key for listed in backend.list("")} == {A, B, OTHER}
        assert list(backend.list("accounts/three/")) == []

    @pytest.mark.parametrize("prefix", ["accounts/on", "accounts/../", "/", "..", "../"])
    def test_a_listing_is_of_whole_segments(self, backend, prefix):
        with pytest.raises(ValueError, match="object key"):
            list(backend.list(prefix))

    def test_a_deleted_object_is_gone_and_deletion_repeats(self, backend):
        backend.put_if_absent(A, [b"x"])
        backend.put_if_absent(B, [b"y"])
        assert (backend.delete(A), backend.delete(A)) == (True, False)
        assert [listed.key for listed in backend.list("")] == [B]

    def test_a_batch_is_there_after_publish(self, backend):
        steps: list[str] = []
        batch = backend.batch(steps.append)
        for key in (A, B):
            batch.put(key, [key.encode()])
        batch.publish()
        assert [backend.read(key, 0, 99) for key in (A, B)] == [A.encode(), B.encode()]
        assert steps == ["object_staged"] * 2 + ["objects_synced"] + ["object_named"] * 2 + ["objects_durable"]

    def test_discard_after_publish_takes_nothing_away(self, backend):
        batch = backend.batch()
        batch.put(A, [b"x"])
        batch.publish()
        batch.discard()
        assert backend.read(A, 0, 9) == b"x"

    def test_a_batch_takes_a_key_once(self, backend):
        batch = backend.batch()
        batch.put(A, [b"x"])
        with pytest.raises(ValueError, match="already"):
            batch.put(A, [b"y"])
        batch.publish()
        assert backend.read(A, 0, 9) == b"x"

    def test_a_batch_does_not_replace_what_exists(self, backend):
        backend.put_if_absent(B, [b"old"])
        batch = backend.batch()

        def put_and_publish():  # either may be the one that notices
            batch.put(B, [b"new"])
            batch.publish()

        with pytest.raises(ObjectExistsError):
            put_and_publish()
        batch.discard()
        assert backend.read(B, 0, 9) == b"old"

    def test_an_object_whose_bytes_fail_to_come_is_not_there(self, backend):
        def bytes_that_end_badly():
            yield b"some"
            raise RuntimeError("source is gone")

        with pytest.raises(RuntimeError, match="source is gone"):
            backend.put_if_absent(A, bytes_that_end_badly())
        assert list(backend.list("")) == []

    def test_threads_put_into_one_batch(self, backend):
        batch = backend.batch()
        keys = [f"accounts/one/packs/{number:04x}" for number in range(16)]
        threads = [threading.Thread(target=batch.put, args=(key, [key.encode() * 100])) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch.publish()
        assert [backend.read(key, 0, len(key)) for key in keys] == [key.encode() for key in keys]
