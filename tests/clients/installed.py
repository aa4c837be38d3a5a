"""Real clients in environments of their own, pinned; made once, below a directory."""

import subprocess
import sys
import venv
from pathlib import Path


def python(below: Path, package: str) -> Path:
    """A Python with that package, e.g. `anthropic==2.14.0`."""
    home = below / package.replace("==", "-")
    done = home / "installed"
    if not done.exists():
        _say(package)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", "--no-input", package], check=True)
        done.touch()
    return home / "bin" / "python"


def node(below: Path, package: str, program: str) -> Path:
    """A program of that package of npm, e.g. `@openai/codex@0.171.0`."""
    home = below / package.strip("@").replace("/", "-").replace("@", "-")
    done = home / "installed"
    if not done.exists():
        _say(package)
        home.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), package], check=True, stdout=subprocess.DEVNULL)
        done.touch()
    return home / "node_modules" / ".bin" / program


def _say(package: str) -> None:
    print(f"installing {package}", file=sys.stderr, flush=True)
