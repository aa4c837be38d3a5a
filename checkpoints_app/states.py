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
    LIVE = "live"  # its object holds exactly the units that checkpoints need
    REWRITING = "rewriting"  # units in it are needed by nobody any more: the next generation is on its way
    CONDEMNED = "condemned"  # nobody needs it: its object is deleted, then its row
    CORRUPT = "corrupt"  # units that somebody needs are damaged or missing


_P = PackState

PACK_TRANSITIONS: Mapping[PackState, frozenset[PackState]] = {
    _P.LIVE: frozenset({_P.REWRITING, _P.CONDEMNED, _P.CORRUPT}),
    _P.REWRITING: frozenset({_P.LIVE, _P.CORRUPT, _P.CONDEMNED}),
    _P.CORRUPT: frozenset({_P.LIVE, _P.REWRITING, _P.CONDEMNED}),
    _P.CONDEMNED: frozenset(),
}
#: What a save may rely on, as far as the units that it needs are not bad.
PACK_RELIABLE = frozenset({_P.LIVE, _P.CORRUPT})
#: What an erasure has begun and not finished.
PACK_UNSETTLED = frozenset({_P.REWRITING, _P.CONDEMNED})


class ManifestState(StrEnum):
    LIVE = "live"
    CONDEMNED = "condemned"
    CORRUPT = "corrupt"


#: The client's words for every state of a checkpoint, as the capability document publishes them.
VOCABULARIES: Mapping[str, list[str]] = {"checkpoint": [CLIENT_WORDS.get(state, state.value) for state in CheckpointState]}
