"""A workspace as a tar: all of its plain files, nothing else, whatever the guest says."""

import contextlib
import gzip
import io
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessions_app.errors import Conflict, GuestSilent, ServiceError, TooLarge, WrongState
from sessions_app.models import Session
from sessions_app.services import bounds, steps, workspace_download
from sessions_app.services.guest_files import Node, Small, Tree
from tests.integration.operations.scripted import offer_scripts
from tests.integration.operations.world import World, guest
from tests.support.waiting import until
from tests.unit.archive.kit import read as reread
from workers.host.identity import host_directory
from workers.relay import address, server


@pytest.fixture
def relayed(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose fake machine takes scripts, and its host's relay."""
    offer_scripts(monkeypatch)
    session = world.boot()
    relay = server.serve_relay()
    until(lambda: _listens(host_directory()), 10, "the relay listens")
    yield session
    relay.close()


def _listens(directory: Path) -> bool:
    with contextlib.suppress(OSError), address.reach(directory):
        return True
    return False


def downloaded(session: Session, path: str = "") -> dict[str, bytes | None]:
    data = b"".join(workspace_download.tar(session, workspace_download.survey(session, path)))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {one.name: None if one.isdir() else tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def test_every_plain_file_is_in_it_and_what_has_no_place_is_counted(relayed: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_download, "ROWS", 7)
    monkeypatch.setattr(workspace_download, "BUNDLE_BYTES", 20_000)
    guest(relayed, "mkdir -p d/e; echo one >d/one; : >d/e/empty; head -c 50000 /dev/zero | tr '\\0' x >large; echo t >-T; chmod 700 d/one")
    guest(
        relayed,
        "ln -s /etc out; ln -s d in; mkfifo pipe; echo s >.env; echo x >\"$(printf 'n\\nl')\"; for n in $(seq 9); do echo $n >$n; done",
    )
    found = workspace_download.survey(relayed, "")
    assert found.left_out == Counter(links=2, special=1, secrets=1, names=1)
    held = downloaded(relayed)
    assert (held["d/one"], held["d/e/empty"], held["large"], held["-T"]) == (b"one\n", b"", b"x" * 50000, b"t\n")
    assert {str(n) for n in range(1, 10)} | {"d", "d/e", "d/e/empty", "d/one", "large", "-T"} == set(held)
    assert downloaded(relayed, "d") == {"e": None, "e/empty": b"", "one": b"one\n"}


def test_what_is_downloaded_can_be_uploaded_again(relayed: Session) -> None:
    guest(relayed, "mkdir d; echo run >d/run; chmod 755 d/run; ln d/run d/same")
    data = b"".join(workspace_download.zipped(workspace_download.tar(relayed, workspace_download.survey(relayed, ""))))
    with tarfile.open(fileobj=io.BytesIO(reread(gzip.decompress(data)))) as tar:
        assert [(one.name, one.mode) for one in tar] == [("d", 0o755), ("d/run", 0o755), ("d/same", 0o755)]


def test_more_than_is_given_out_is_refused_before_it_begins(relayed: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    guest(relayed, "echo 12345 >f; echo >g")
    for bound in ("DOWNLOAD_BYTES", "DOWNLOAD_ENTRIES"):
        with monkeypatch.context() as patch:
            patch.setattr(bounds, bound, 1)
            with pytest.raises(TooLarge, match="Nothing was read"):
                workspace_download.survey(relayed, "")


def test_a_session_that_does_not_run_is_refused_with_the_way_to_wake_it(world: World, relayed: Session) -> None:
    world.save(relayed, stop=True)
    with pytest.raises(WrongState) as refused:
        workspace_download.survey(relayed, "")
    assert refused.value.word == "ks_session_not_running"
    assert "resume" in refused.value.next_action


class Liar:
    """Says of its files what the test has written."""

    root, piece_bytes = "/root", 1 << 19

    def __init__(self, trees: list[Tree], small: list[Small]):
        self.trees, self.small = trees, small

    def tree(self, path: str, first: int, limit: int) -> Tree:
        return self.trees.pop(0) if len(self.trees) > 1 else self.trees[0]

    def bundle(self, path: str, names: list[str], limit: int) -> list[Small]:
        return self.small


def node(path: str) -> Node:
    return Node(path, True, "file", 1, 0o644, 1_700_000_000)


LIES = {
    "a file twice": ([Tree([node("f"), node("f")], 2)], Conflict),
    "rows that never end": ([Tree([node("f")], 5), Tree([], 5)], Conflict),
    "another count each time": ([Tree([node("f")], 2), Tree([node("g")], 3)], Conflict),
    "fewer files than it has": ([Tree([node("f")], 1)], GuestSilent),
}


@pytest.mark.parametrize(("trees", "error"), LIES.values(), ids=LIES.keys())
def test_a_guest_that_lies_gets_a_typed_refusal(
    db: None, monkeypatch: pytest.MonkeyPatch, trees: list[Tree], error: type[ServiceError]
) -> None:
    session = Session(runtime_state="running")
    monkeypatch.setattr(steps.guest_files, "_provider", lambda _: Liar(list(trees), []))
    with pytest.raises(error):
        list(workspace_download.tar(session, workspace_download.survey(session, "")))


@pytest.mark.parametrize("path", ["../f", "/etc/passwd", "a/../b", "a//b", "./a", "~/x"])
def test_a_path_that_leads_anywhere_else_is_left_out(db: None, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    session = Session(runtime_state="running")
    monkeypatch.setattr(steps.guest_files, "_provider", lambda _: Liar([Tree([node(path)], 1)], []))
    assert workspace_download.survey(session, "").left_out == Counter(names=1)
