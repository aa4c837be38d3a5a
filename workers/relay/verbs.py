"""What a relay does about files: names of verbs, and how each is carried out on a machine. The caller has checked who may ask."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from sessions_app.services.guest_files import Target
from workers.files import listing, reading, scripts, tree, writing
from workers.machine.script import RunsScripts

Answer = tuple[dict[str, Any], bytes]
ENTRIES = range(1, 2000 + 1)
LARGEST_TREE = 1 << 30
BUNDLE_BYTES = 1 << 20
LARGEST_FILE = 1 << 50


def _list(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    found = listing.list_path(machine, _text(asked, "path"), _number(asked, "limit", ENTRIES))
    return {}, json.dumps(asdict(found)).encode()


def _read(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    count = _number(asked, "count", range(scripts.PIECE_BYTES + 1))
    offset = _number(asked, "offset", range(LARGEST_FILE))
    piece = reading.read_piece(machine, _text(asked, "path"), offset, count, hashed=asked.get("hashed") is True)
    return {name: value for name, value in vars(piece).items() if name != "data"}, piece.data


def _tree(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    found = tree.tree(machine, _text(asked, "path"), _number(asked, "first", range(LARGEST_TREE)), _number(asked, "limit", ENTRIES))
    rows = [list(vars(node).values()) for node in found.nodes]
    return {}, json.dumps({"nodes": rows, "total": found.total}, ensure_ascii=False).encode()


def _bundle(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    names = json.loads(blob)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("blob")
    found = tree.bundle(machine, _text(asked, "path"), names, _number(asked, "limit", range(1, BUNDLE_BYTES + 1)))
    return {"files": [[one.mode, one.mtime, len(one.data)] for one in found]}, b"".join(one.data for one in found)


def _begin(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    writing.begin(machine, _target(asked))
    return {}, b""


def _put(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    if len(blob) > scripts.PIECE_BYTES:
        raise ValueError("blob")
    writing.put(machine, _target(asked), _number(asked, "offset", range(LARGEST_FILE)), blob)
    return {}, b""


def _commit(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    mode = None if asked.get("mode") is None else _number(asked, "mode", range(0o10000))
    written = writing.commit(machine, _target(asked), _number(asked, "size", range(LARGEST_FILE)), _text(asked, "sha256"), mode)
    return asdict(written), b""


def _abort(machine: RunsScripts, asked: Mapping[str, Any], blob: bytes) -> Answer:
    writing.abort(machine, _target(asked))
    return {}, b""


VERBS: Mapping[str, Callable[[RunsScripts, Mapping[str, Any], bytes], Answer]] = {
    "files.list": _list,
    "files.read": _read,
    "files.tree": _tree,
    "files.bundle": _bundle,
    "files.begin": _begin,
    "files.put": _put,
    "files.commit": _commit,
    "files.abort": _abort,
}


def _target(asked: Mapping[str, Any]) -> Target:
    return Target(_text(asked, "directory"), _text(asked, "name"), _text(asked, "temporary"), asked.get("only_new") is True)


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str):
        raise ValueError(name)
    return value


def _number(asked: Mapping[str, Any], name: str, allowed: range) -> int:
    value = asked.get(name)
    if type(value) is not int or value not in allowed:
        raise ValueError(name)
    return value
