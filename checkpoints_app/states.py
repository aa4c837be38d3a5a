"""The states of a checkpoint and of a pack, as data."""

from collections.abc import Mapping
from enum import StrEnum


class CheckpointState(StrEnum):
    CAPTURING = "capturing"
    UPLOADING = "uploading"
    PUBLISHED = "published"
    FAILED = "failed"
    CORRUPT = "corrupt"
    ERASING = "erasing"
    ERASED = "erased"


_C = CheckpointState

CHECKPOINT_TRANSITIONS: Mapping[CheckpointState, frozenset[CheckpointState]] = {
    _C.CAPTURING: frozenset({_C.UPLOADING, _C.FAILED, _C.ERASING}),
    _C.UPLOADING: frozenset({_C.PUBLISHED, _C.FAILED, _C.ERASING}),
    _C.PUBLISHED: frozenset({_C.CORRUPT, _C.ERASING}),
    _C.CORRUPT: frozenset({_C.PUBLISHED, _C.ERASING}),
    _C.FAILED: frozenset({_C.ERASING}),
    _C.ERASING: frozenset({_C.ERASED}),
    _C.ERASED: frozenset(),
}
CHECKPOINT_UNFINISHED = frozenset({_C.CAPTURING, _C.UPLOADING})

#: The client's words, where they differ from ours.
CLIENT_WORDS: Mapping[str, str] = {_C.PUBLISHED: "valid"}


class PackState(StrEnum):
    LIVE = "live"
    CONDEMNED = "condemned"


#: The client's words for every state of a checkpoint, as the capability document publishes them.
VOCABULARIES: Mapping[str, list[str]] = {"checkpoint": [CLIENT_WORDS.get(state, state.value) for state in CheckpointState]}
