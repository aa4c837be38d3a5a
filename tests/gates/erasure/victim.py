"""A worker that erases a checkpoint, or an account, and dies of SIGKILL at a named step."""

import os
import signal
from collections.abc import Callable

from django.db.models import Value

from checkpoints_app.models import Checkpoint, Pack
from checkpoints_app.services import account_erase, erase, pack, storage
from checkpoints_app.states import PackState
from checkpoints_app.store.bitmap import UnitSet
from checkpoints_app.store.rewrite import RewrittenPack
from sessions_app.models import Account
from tests.support import forked

replace = setattr  # of what belongs to the product, in this process alone
DieAt = Callable[[str], None]


def sabotage(kind: str) -> None:
    """The faults that the gate must notice."""
    if kind == "shared_packs_stay_whole":
        replace(pack, "state_of", lambda live, units: None if live.any() else PackState.CONDEMNED)
    elif kind == "old_generations_stay":
        replace(pack, "_clear", lambda row, step: None)
    elif kind == "objects_go_before_the_row_moves":
        move = pack._move

        def cleared_first(row: Pack, made: RewrittenPack, lost: UnitSet) -> bool:
            storage.delete_pack(row.account_id, row.id, row.generation)
            os.kill(os.getpid(), signal.SIGKILL)
            return move(row, made, lost)

        replace(pack, "_move", cleared_first)
    elif kind == "ancestors_are_not_kept":
        replace(erase, "Exists", held_by_nobody)


def held_by_nobody(query: object) -> object:
    return Value(value=False)


def erasing(what: str, row_id: str, step: str, times: int = 1, kind: str = "none") -> int:
    """How the process ended that erased the "checkpoint" or "account" of this id: negative is the signal."""

    def work() -> None:
        sabotage(kind)
        die_at = dying(step, times)
        if what == "account":
            account_erase.erase_account(Account.objects.get(id=row_id), step=die_at)
        else:
            erase.erase_checkpoint(Checkpoint.objects.get(id=row_id), step=die_at)

    return forked.run(work)


def dying(step: str, times: int) -> DieAt:
    """Kills this process when it has reached the step so many times."""
    left = times

    def die_at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return die_at
