"""From an export's frames into a store: the images of a new checkpoint, under another account's keys."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby

import numpy as np

from .export_frames import Frame
from .export_reader import ExportReader
from .extents import Int64s
from .pages import Units
from .writer import CheckpointWriter


def add_images(reader: ExportReader, writer: CheckpointWriter) -> None:
    """Give the writer every image of the export. At return the whole file has been verified, its trailer included.

    Raises what reading the file and storing raise; the writer is good for `abort` only then.
    """
    groups = groupby(reader.frames(), key=lambda frame: frame.image)
    of_group, frames = next(groups, (None, iter(())))
    for number, image in enumerate(reader.head.images):
        mine: Iterator[Frame] = iter(frames) if of_group == number else iter(())
        zeros, rest = _zeros_first(mine)
        writer.add_image(
            image.name, image.length_bytes, image.base, _pages(rest), whole=True, zero_units=zeros if image.base is not None else None
        )
        if of_group == number:
            of_group, frames = next(groups, (None, iter(())))
    if reader.trailer is None:  # frames are read to their end above; this is the one condition under which anything may be published
        raise reader.seal.refusal("its trailer was not reached")


def _zeros_first(frames: Iterator[Frame]) -> tuple[Int64s, Iterator[Frame]]:
    """(units that are zero, the frames with content): the order in which an export has them."""
    zeros: list[Int64s] = [np.empty(0, np.int64)]
    for frame in frames:
        if frame.units is not None:
            return np.concatenate(zeros), chain([frame], frames)
        zeros.append(frame.numbers)
    return np.concatenate(zeros), iter(())


def _pages(frames: Iterable[Frame]) -> Iterator[tuple[Int64s, memoryview]]:
    for frame in frames:
        units: Units | None = frame.units
        assert units is not None
        yield frame.numbers, units.reshape(-1).data
