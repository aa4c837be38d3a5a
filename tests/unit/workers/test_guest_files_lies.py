"""What a guest answers about files is hostile: whatever it says, there is a typed refusal or what was asked for, never more."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.services.guest_files import Target
from workers.files import listing, reading, tree, writing
from workers.files.refusal import FileRefused
from workers.machine.script import Line, ScriptResult

TARGET = Target("d", "f", ".keepstate-put-" + "0" * 32, only_new=False)


class Guest:
    """Answers every script with the same bytes and code."""

    runtime = Path("/nowhere")

    def __init__(self, stdout: bytes = b"", code: int | None = 0, stderr: str = ""):
        self.result = ScriptResult(code, stdout, stderr)
        self.asked: list[tuple[Sequence[str], bytes]] = []

    def script(
        self, script: str, arguments: Sequence[str], *, data: bytes = b"", timeout_seconds: float, output_limit: int
    ) -> ScriptResult:
        self.asked.append((arguments, data))
        return self.result

    def terminal(self) -> Line:
        raise NotImplementedError


FACTS = b"7 10 1700000000 1700000000 81a4\n-\nf//\n"


def test_an_honest_answer_is_understood():
    piece = reading.read_piece(Guest(FACTS + b"0123456789"), "f", 0, 100)
    assert (piece.size, piece.mode, piece.data, piece.real_path, piece.sha256) == (10, 0o644, b"0123456789", "f", None)


@pytest.mark.parametrize("more", [b"", b"012345678", b"0123456789x"])
def test_more_or_fewer_bytes_than_were_promised_are_refused(more):
    with pytest.raises(FileRefused) as refused:
        reading.read_piece(Guest(FACTS + more), "f", 0, 100)
    assert refused.value.code == "changed"


@pytest.mark.parametrize(
    "answer",
    [b"", b"\n", b"7 10 1 1\n-\nf//\n", b"-7 10 1 1 81a4\n-\nf//\n", b"7 " + b"9" * 30 + b" 1 1 1\n-\nf//\n", b"7 0 1 1 81a4\nhash\nf//\n",
     b"7 0 1 1 81a4\n-\nf", b"7 0 1 1 81a4\n" + b"a" * 64 + b"\nf//\n"],
)  # fmt: skip
def test_an_account_that_makes_no_sense_is_refused(answer):
    with pytest.raises(FileRefused) as refused:
        reading.read_piece(Guest(answer), "f", 0, 100)
    assert refused.value.code in ("failed", "changed")


@given(st.binary(max_size=400))
def test_any_bytes_are_a_refusal_or_a_piece_that_is_no_longer_than_was_asked_for(answer):
    try:
        assert len(reading.read_piece(Guest(answer), "f", 0, 5).data) <= 5
    except FileRefused:
        pass


@given(st.lists(st.sampled_from([b"directory 3\n", b"file 1\n", b"81a4 3 5 ./a//\n", b"41ed 0 5 ./..//\n", b"x", b"//\n", b"./", b"\n"])))
def test_any_list_is_a_refusal_or_printable_names_within_the_limit(parts):
    try:
        found = listing.list_path(Guest(b"".join(parts)), "d", 2)
    except FileRefused:
        return
    assert len(found.entries) <= 2 <= max(2, found.total)
    assert all(entry.name.isprintable() and "/" not in entry.name and entry.size >= 0 for entry in found.entries)


def test_a_name_of_more_than_a_name_can_be_is_refused():
    with pytest.raises(FileRefused):
        listing.list_path(Guest(b"directory 1\n81a4 3 5 ./" + b"a" * 256 + b"//\n"), "d", 10)


@pytest.mark.parametrize(
    ("code", "word"), [(10, "absent"), (11, "outside"), (16, "exists"), (99, "failed"), (None, "failed"), (-5, "failed")]
)
def test_every_code_of_the_guest_is_a_word_of_ours(code, word):
    with pytest.raises(FileRefused) as refused:
        writing.put(Guest(code=code), TARGET, 0, b"x")
    assert refused.value.code == word


def test_a_transfer_writes_to_a_temporary_file_of_its_own_form_only():
    guest = Guest()
    for temporary in ("f", ".keepstate-put-../../x", ".keepstate-put-" + "0" * 31):
        with pytest.raises(FileRefused):
            writing.begin(guest, Target("d", "f", temporary, only_new=False))
    assert guest.asked == []


def test_an_end_of_a_transfer_that_makes_no_sense_is_no_success():
    with pytest.raises(FileRefused):
        writing.commit(Guest(b"done"), TARGET, 1, "a" * 64, None)


TWO = b"1 2 5 5 81a4\n2 1 5 5 81ed\n"


def test_files_of_a_bundle_are_cut_where_the_guest_says_and_it_says_it_twice():
    found = tree.bundle(Guest(TWO + b"abc" + TWO), "d", ["a", "b"], 100)
    assert [(one.mode, one.data) for one in found] == [(0o644, b"ab"), (0o755, b"c")]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        TWO,
        TWO + b"abcd" + TWO,
        TWO + b"ab" + TWO,
        TWO + b"abc" + TWO.replace(b"5 5", b"5 6"),
        TWO + b"abc" + TWO + b"more",
        TWO.replace(b"81a4", b"a1ff") + b"abc" + TWO.replace(b"81a4", b"a1ff"),
        TWO.replace(b" 2 ", b" 999 ") + b"abc",
    ],
)
def test_a_bundle_that_changed_or_makes_no_sense_is_refused(answer):
    with pytest.raises(FileRefused):
        tree.bundle(Guest(answer), "d", ["a", "b"], 100)


@given(
    st.lists(st.sampled_from([TWO, b"abc", b"tree 2\n", b"81a4 3 5 ./a/b//\n", b"//\n", b"\n", b"x"])).map(b"".join)
    | st.binary(max_size=200)
)
def test_any_answer_about_a_tree_or_a_bundle_is_a_refusal_or_within_the_limit(answer):
    for ask in (lambda: tree.tree(Guest(answer), "d", 0, 2).nodes, lambda: tree.bundle(Guest(answer), "d", ["a", "b"], 100)):
        try:
            assert len(ask()) <= 2
        except FileRefused:
            pass
