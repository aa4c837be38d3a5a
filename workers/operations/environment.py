"""Where a session's programs find models and the outside, and what they show there: given once, at the boot."""

import shlex

from gateway_app.proxy import channel
from gateway_app.proxy.settings import proxy_settings
from sessions_app.errors import StartFailed
from sessions_app.models import Session
from workers.machine.driver import Machine, MachineError
from workers.machine.network.addresses import EGRESS_PORT, GATEWAY_ADDRESS
from workers.machine.script import TakesEnvironment

SECONDS = 20.0
_RELAY, _GATEWAY, _PROXY = "http://127.0.0.1:8790", f"http://{GATEWAY_ADDRESS}", f"http://{GATEWAY_ADDRESS}:{EGRESS_PORT}"
_RELAY_IS_THERE = "[ -e /usr/lib/keepstate/relay ]"
_BASES = {"ANTHROPIC_BASE_URL": "", "OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1", "GOOGLE_GEMINI_BASE_URL": ""}
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
#: Some clients look for the one case, some for the other.
_PROXIES = {"HTTP_PROXY": _PROXY, "HTTPS_PROXY": _PROXY, "NO_PROXY": f"127.0.0.1,localhost,{GATEWAY_ADDRESS}"}


def give(machine: Machine, session: Session) -> None:
    """Raises StartFailed. A machine that takes none has none: its programs call no model."""
    if not isinstance(machine, TakesEnvironment):
        return
    try:
        machine.environment(text(channel.credential(session.id, proxy_settings().secrets[0])), SECONDS)
    except MachineError as error:
        raise StartFailed(
            f"The machine did not take its environment: {error}", next_action="Delete the session with force=1 and create another."
        ) from error


def text(credential: str) -> str:
    """For a POSIX shell. An image without the relay has the gateway itself."""
    lines = [f"if {_RELAY_IS_THERE}; then keepstate_base={_RELAY}; else keepstate_base={_GATEWAY}; fi"]
    lines += [f'export {name}="$keepstate_base{path}"' for name, path in _BASES.items()]
    lines += [f"export {name}={shlex.quote(credential)}" for name in _KEYS]
    for name, value in _PROXIES.items():
        lines += [f"export {name}={value} {name.lower()}={value}"]
    return "\n".join([*lines, "unset keepstate_base", ""])
