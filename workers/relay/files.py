"""The files of a session's machine through its host's relay: the step `guest_files`."""

import json
from dataclasses import asdict
from typing import Any

from sessions_app.errors import GuestSilent
from sessions_app.models import Session
from sessions_app.services.guest_files import Entry, GuestFiles, Listing, Node, Piece, Small, Target, Tree, Written
from workers.files.scripts import PIECE_BYTES, ROOT
from workers.relay.client import ask


class RelayedFiles:
    """`GuestFiles` of a session's present epoch."""

    root = ROOT
    piece_bytes = PIECE_BYTES

    def __init__(self, session: Session):
        self._session = session

    def listing(self, path: str, limit: int) -> Listing:
        _, blob = ask(self._session, "files.list", {"path": path, "limit": limit})
        found = json.loads(blob)
        return Listing(found["is_dir"], [Entry(**entry) for entry in found["entries"]], found["total"])

    def tree(self, path: str, first: int, limit: int) -> Tree:
        _, blob = ask(self._session, "files.tree", {"path": path, "first": first, "limit": limit})
        found = json.loads(blob)
        return Tree([Node(*node) for node in found["nodes"]], found["total"])

    def bundle(self, path: str, names: list[str], limit: int) -> list[Small]:
        header, blob = ask(self._session, "files.bundle", {"path": path, "limit": limit}, json.dumps(names).encode())
        small, start = [], 0
        for mode, mtime, size in header["files"]:
            small.append(Small(mode, mtime, blob[start : start + size]))
            start += size
        return small

    def read(self, path: str, offset: int, count: int, *, hashed: bool = False) -> Piece:
        header, data = ask(self._session, "files.read", {"path": path, "offset": offset, "count": count, "hashed": hashed})
        if len(data) > count:
            raise GuestSilent("More came of the file than was asked for; it was dropped.")
        return Piece(**_without_ok(header), data=data)

    def begin(self, target: Target) -> None:
        ask(self._session, "files.begin", asdict(target))

    def put(self, target: Target, offset: int, data: bytes) -> None:
        ask(self._session, "files.put", {**asdict(target), "offset": offset}, data)

    def commit(self, target: Target, size: int, sha256: str, mode: int | None) -> Written:
        header, _ = ask(self._session, "files.commit", {**asdict(target), "size": size, "sha256": sha256, "mode": mode})
        return Written(**_without_ok(header))

    def abort(self, target: Target) -> None:
        ask(self._session, "files.abort", asdict(target))


def files_of(session: Session) -> GuestFiles:
    return RelayedFiles(session)


def _without_ok(header: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "ok"}
