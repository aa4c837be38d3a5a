"""What a process remembers for its life of a setting is forgotten when a test changes that, and at its end: no test meets another's."""

import sys
from typing import Any

from django.test.signals import setting_changed

_HOST = ("workers.host.identity", "host_id")
#: By setting: the modules and functions that remember it.
_REMEMBERED = {
    "KEEPSTATE_HOST_ID": (_HOST,),
    "KEEPSTATE_VAR": (_HOST,),
    "KEEPSTATE_MACHINE_DRIVER": (("workers.host.drivers", "driver"),),
    "STORAGES": (("checkpoints_app.services.storage", "backend"),),
}


def forget_what_tests_change() -> None:
    """From now on."""
    setting_changed.connect(_forget)


def _forget(*, setting: str, **_: Any) -> None:
    for module, name in _REMEMBERED.get(setting, ()):
        forget = getattr(getattr(sys.modules.get(module), name, None), "cache_clear", None)  # not there: not imported, or a test's own
        if forget is not None:
            forget()
