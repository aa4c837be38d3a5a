"""LiteLLM's proxy, as its package has it, in an environment of its own: what the gateway is measured beside."""

import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.gateway_process import Running, free_port, running

PACKAGE = "litellm[proxy]==1.108.7"
#: It starts without a key and reads its table of prices from its package.
_ENVIRONMENT = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "DATABASE_URL": "",
    "REDIS_URL": "",
}


def installed(below: Path) -> Path:
    """The environment's directory; made once, with the pinned package."""
    home = below / PACKAGE.replace("[proxy]==", "-")
    done = home / "installed"
    if not done.exists():
        print(f"installing {PACKAGE} below {home}", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", "--no-input", PACKAGE], check=True)
        done.touch()
    return home


@contextmanager
def serving(home: Path, provider: str, directory: Path) -> Iterator[Running]:
    """The model `fake-model` in OpenAI's form, `fake-claude` in Anthropic's; both are the fake provider's."""
    models = {"fake-model": ("openai", f"{provider}/v1"), "fake-claude": ("anthropic", provider)}
    told = [
        {"model_name": name, "litellm_params": {"model": f"{kind}/fake-model", "api_base": base, "api_key": "none"}}
        for name, (kind, base) in models.items()
    ]
    config, port = directory / "litellm.yaml", free_port()
    config.write_text(json.dumps({"model_list": told}))  # JSON is YAML
    argv = [str(home / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    with running(argv, f"http://127.0.0.1:{port}", directory / "litellm.log", "/health/liveliness", _ENVIRONMENT) as one:
        yield one
