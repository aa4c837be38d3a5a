"""How a machine ended that nobody of ours has ended, in the words of its session: the failure, the event and its facts.

A guest that panics or shuts down says so itself (its processor's state, its console): it is the guest's word, and changes nothing but
these words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sessions_app.errors import MachineLost
from sessions_app.models import Session
from workers.machine.driver import Ending, Machine

DETAIL_CHARACTERS = 1000


@dataclass(frozen=True)
class Ended:
    failure: MachineLost
    event: str
    facts: Mapping[str, str]


_WORDS: Mapping[Ending, tuple[str, str, str]] = {  # code, event, what happened
    Ending.GUEST_SHUTDOWN: ("ks_guest_shutdown", "session.guest_shutdown", "The guest shut down or restarted by itself."),
    Ending.GUEST_PANICKED: ("ks_guest_panicked", "session.guest_panicked", "The guest's kernel panicked."),
    Ending.HYPERVISOR_ERROR: ("ks_machine_lost", "session.machine_lost", "The hypervisor could not go on with the guest."),
    Ending.UNKNOWN: ("ks_machine_lost", "session.machine_lost", "The machine's process ended on its own or was killed."),
}


def how_it_ended(session: Session, machine: Machine | None) -> Ended:
    """`machine`: as its host still has it, or None if its process is gone."""
    status = machine.inspect() if machine is not None else None
    ending = status.ending if status is not None and status.ending is not None else Ending.UNKNOWN
    code, event, happened = _WORDS[ending]
    if session.head_checkpoint_id:
        saved, next_action = "Its last checkpoint is intact.", "Resume the session from its last checkpoint."
    else:
        saved, next_action = "Nothing of the session had been saved.", "Delete it with force=1 and start another."
    facts = {"reason": happened, "detail": (status.reason or "")[:DETAIL_CHARACTERS] if status else ""}
    return Ended(MachineLost(f"{happened} {saved}", next_action=next_action, code=code), event, facts)
