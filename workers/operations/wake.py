"""Set a machine running again after work that may have stopped it, and say what came of it."""

from sessions_app.states import SessionState
from workers.machine.driver import Machine, MachineError


def set_running(machine: Machine) -> SessionState:
    """The state that the session is in now: `running`; `failed`, for its machine has ended; or `checkpointing`, for it lives and does not
    obey, and its host tries again until it does (workers/operations/settle.py).

    Prerequisite: within the commit that tells it, whose lock keeps a successor, who may be saving the machine, from taking over meanwhile.
    """
    try:
        machine.run()
    except MachineError as error:
        return SessionState.FAILED if error.code == "machine_dead" else SessionState.CHECKPOINTING
    return SessionState.RUNNING
