"""Which refusals a client must expect of which act, as data: any other is a finding, whatever fault reigns.

Each says truly what was not done. `ks_internal` is none of them but where a worker was lost in the middle, which says so in words.
"""

from collections.abc import Mapping

_BUSY = {"ks_conflict"}  # the fleet has asked for something in the owner's stead, or what was asked before has not ended yet
_GONE = {"ks_session_not_running", "ks_machine_lost", "ks_host_lost"}  # its machine was killed, or its host was
_PLACE = {"ks_fleet_unavailable"}  # no host that is heard of has room
_STORE = {"ks_start_failed", "ks_host_lost"}  # the store, the machine or its host did not answer; the checkpoint was not judged

EXPECTED: Mapping[str, frozenset[str]] = {
    "start": frozenset(_PLACE | {"ks_start_failed", "ks_host_lost"}),
    "exec": frozenset(_BUSY | _GONE | {"ks_guest_silent", "ks_stopping"}),
    "save": frozenset(_BUSY | _GONE | {"ks_save_failed", "ks_guest_silent", "ks_stopping"}),
    "resume": frozenset(_BUSY | _PLACE | _STORE | {"ks_guest_silent", "ks_stopping"}),
    "fork": frozenset(_BUSY | _GONE | _PLACE | _STORE | {"ks_save_failed", "ks_guest_silent", "ks_stopping"}),
    "move": frozenset(_BUSY | _GONE | _PLACE | {"ks_save_failed", "ks_guest_silent", "ks_stopping", "ks_unavailable"}),
    "delete": frozenset(_BUSY | {"ks_not_found", "ks_idempotency_conflict"}),  # sent again: it is gone, and its key with it
    "read": frozenset(),
}

#: How the words of an operation begin whose worker was lost as often as it was tried (sessions_app/services/lease.py).
LOST = ("Its worker was lost", "Its host was lost", "The host")


def is_expected(act: str, code: str, message: str) -> bool:
    return code in EXPECTED[act] or (code == "ks_internal" and message.startswith(LOST))
