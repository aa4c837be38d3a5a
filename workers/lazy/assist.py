"""A second process beside a worker that restores a whole image: hashing units keeps an interpreter busy, so two of them use two cores.

Both take pack after pack from one pipe and write into one file. The worker's own part is the same function.
"""

import json
import os
import socket
import struct
import sys
from collections.abc import Callable

import numpy as np

from checkpoints_app.store.backends import Backend
from checkpoints_app.store.errors import StoreError
from checkpoints_app.store.generations import Generations
from checkpoints_app.store.restore import by_pack
from workers.lazy import status
from workers.lazy.loader import Loader
from workers.lazy.plan import Plan, receive
from workers.lazy.where import opened

TOKEN = struct.Struct("<H")  # the number of a pack among those that the image lies in; a pipe gives such a token whole to one reader
MAX_PACKS = 1 << 15  # so many tokens fit into a pipe that nobody reads


def restore_from(
    tokens_fd: int,
    plan: Plan,
    fd: int,
    backend: Backend,
    generations: Generations | None = None,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Restore the packs whose numbers come out of the pipe, until it ends; returns how many. Numbers count in `plan.indexes`.

    Raises as `Loader.load`, and what `between`, called before each pack, raises.
    """
    loader = Loader(plan, backend, fd, generations)
    held = np.flatnonzero(plan.locations >= 0)
    parts = {pack_id: (sources, targets) for pack_id, sources, targets in by_pack(plan.packs, plan.locations, held)}
    names, done = list(plan.indexes), 0
    while token := os.read(tokens_fd, TOKEN.size):
        between()
        name = names[TOKEN.unpack(token)[0]]
        loader.load(name, *parts[name])
        done += 1
    return done


def run(arguments: list[str]) -> None:
    """Answers one line of JSON: {"done": packs}, or what failed."""
    target_fd, tokens_fd, plan_fd, control_fd = map(int, arguments)
    control = socket.socket(fileno=control_fd)
    if control.recv(1) != b"g":
        sys.exit(0)
    try:
        plan = receive(plan_fd)
        answer: dict[str, object] = {"done": restore_from(tokens_fd, plan, target_fd, opened(plan.store))}
    except (StoreError, OSError) as error:
        answer = dict(status.why(error))
    control.sendall(json.dumps(answer).encode())
