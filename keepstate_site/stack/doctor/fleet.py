"""What this machine must share with its fleet: asked of Django, which knows the schema, the store and the keys."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from keepstate_site.stack import lock, services
from keepstate_site.stack.doctor.finding import Finding, failed, ok, unknown, warn
from keepstate_site.stack.paths import PROJECT, Paths, default_root

SECONDS = 120
SEE = 'see docs/operations/fleet.md, "What a fleet shares"'


def fleet() -> Iterator[Finding]:
    """Nothing to say of a machine that has no servers to ask: it is no host of a fleet, and its stack does not run."""
    root = default_root()
    environment = _environment(root)
    python = root / "venv" / "bin" / "python"
    if environment is None:
        yield ok("fleet", "DATABASE_URL is not set and no stack runs: this machine is in no fleet now")
    elif not python.exists():
        yield unknown("fleet", "requirements are not installed, so it cannot be asked", "any command but doctor installs them")
    else:
        yield from asked([str(python), "manage.py", "check_fleet", "--json"], environment)


def asked(argv: list[str], environment: Mapping[str, str]) -> Iterator[Finding]:
    """What the command found, each as a finding; one that could not be made is unknown."""
    answer = subprocess.run(argv, cwd=PROJECT, env=dict(environment), capture_output=True, text=True, timeout=SECONDS, check=False)
    if answer.returncode:
        said = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
        yield unknown("fleet", f"could not be asked: {said[-1] if said else f'code {answer.returncode}'}", SEE)
        return
    for row in json.loads(answer.stdout):
        name = f"fleet {row['name']}"
        if row["problem"]:
            yield failed(name, row["text"], SEE)
        elif row["doubt"]:
            yield warn(name, row["text"])
        else:
            yield ok(name, row["text"])


def _environment(root: Path) -> dict[str, str] | None:
    if os.environ.get("DATABASE_URL"):
        return {**os.environ, "KEEPSTATE_VAR": str(root)}
    if lock.holder(Paths(root)) is not None:
        return services.find(root).environment()
    return None
