"""What is kept for a time and then forgotten, in small batches: the beat's turn takes one of each."""

from collections.abc import Callable

from sessions_app.services import device_grant, plan, recorded, steps, token, workspace
from sessions_app.services.webhooks import delivery

#: Each forgets a batch and returns how many rows it was; so does every chore that another app has registered.
CHORES: tuple[Callable[[], int], ...] = (
    *(plan.forget_expired, recorded.forget_old, workspace.forget_expired, delivery.forget_old),
    *(device_grant.forget_old, token.forget_dead),
)


def run() -> int:
    return sum(chore() for chore in (*CHORES, *steps.chores))
