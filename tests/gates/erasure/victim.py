"""A worker that erases a checkpoint, or an account, and dies of SIGKILL at a named step.

Run as `python -m tests.gates.erasure.victim WHAT ID STEP TIMES SABOTAGE`, with the gate's database, store and master key in its
environment.
"""

import os
import signal
import sys

replace = setattr  # of what belongs to the product, in this process alone


def sabotage(kind: str) -> None:
    """The faults that the gate must notice."""
    from checkpoints_app.models import Pack
    from checkpoints_app.services import erase, pack, storage
    from checkpoints_app.states import PackState
    from checkpoints_app.store.bitmap import UnitSet
    from checkpoints_app.store.rewrite import RewrittenPack

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
    from django.db.models import Value

    return Value(value=False)


def main() -> None:
    what, row_id, step, times, kind = sys.argv[1:]
    import django

    django.setup()
    from checkpoints_app.models import Checkpoint
    from checkpoints_app.services import account_erase, erase
    from sessions_app.models import Account

    sabotage(kind)
    left = int(times)

    def die_at(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    if what == "account":
        account_erase.erase_account(Account.objects.get(id=row_id), step=die_at)
    else:
        erase.erase_checkpoint(Checkpoint.objects.get(id=row_id), step=die_at)


if __name__ == "__main__":
    main()
