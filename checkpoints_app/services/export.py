"""Export: one published checkpoint into one file that needs neither this service's keys nor its database to be read.

What goes out: the images, the pin with its facts, what the machine is made of, the watermarks. What stays: the session's history, its
recorded calls, everything else of the account.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from checkpoints_app.models import Checkpoint
from checkpoints_app.services import key, storage
from checkpoints_app.services import verify as judge
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import IntegrityError, MissingObjectError, SecretKey
from checkpoints_app.store.export_reader import ExportReader
from checkpoints_app.store.export_writer import ExportSource, OtherExportError, write_export
from sessions_app.errors import Conflict, IntegrityFailed, NotRestorable

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    export_id: str
    content: str  # account-independent digest of pin and images
    file_bytes: int
    frames: int


def export(checkpoint_id: str, path: Path, export_key: SecretKey, *, tell: Tell = lambda done, total: None) -> Exported:
    """Make `path` a whole export; a cut one of this checkpoint under this key is continued. The file is read back before this returns.

    Raises NotRestorable, Conflict (the file is something else, or another export writes it; it is untouched), IntegrityFailed (what was
    damaged is marked corrupt; what is missing is judged by the scrub), BackendError or OSError. After the last three the file is cut, and
    the same call continues it.
    """
    checkpoint = Checkpoint.objects.filter(id=checkpoint_id).first()
    if checkpoint is None or checkpoint.state != CheckpointState.PUBLISHED:
        state = checkpoint.state if checkpoint else "unknown"
        raise NotRestorable(
            f"The checkpoint {checkpoint_id} is {state}, not valid. Nothing was exported.", next_action="Name one that is valid."
        )
    with _alone(path) as file:
        try:
            source = _source(checkpoint)
            write_export(source, file, export_key, tell=tell)
        except OtherExportError as error:
            raise Conflict(
                f"{path} is not a begun export of this checkpoint: {error}. It was not touched.", next_action="Name another file."
            ) from error
        except (IntegrityError, MissingObjectError) as error:
            storage.require_present(checkpoint.account_id)
            judge.refused(checkpoint, error, source="export")
            raise IntegrityFailed(
                f"The checkpoint {checkpoint.id} cannot be exported: {error}", next_action="Export an older one."
            ) from error
        _sync_name(path)
        file.seek(0)
        return verify(file, export_key)


def _source(checkpoint: Checkpoint) -> ExportSource:
    account_id = checkpoint.account_id
    keys = key.keys_to_read(account_id)
    return ExportSource.load(storage.backend(), keys, account_id, checkpoint.manifest_id, generations=storage.generations)


def verify(file: BinaryIO, export_key: SecretKey) -> Exported:
    """Read an export to its end. Raises IntegrityFailed for anything that is not exactly what was written; needs no account."""
    try:
        reader = ExportReader(file, export_key)
        for _ in reader.frames():
            pass
    except IntegrityError as error:
        raise refused(error) from error
    assert reader.trailer is not None
    return Exported(reader.export_id, reader.trailer.content, reader.bytes_read, reader.frame_count)


def refused(error: IntegrityError) -> IntegrityFailed:
    return IntegrityFailed(str(error), next_action="Check the key; copy or export the file again.")


@contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """The file, made if it is not there, held against other exports."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"Another export is writing {path}. It was not touched.", next_action="Wait for it.") from error
        yield file


def _sync_name(path: Path) -> None:
    directory = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
