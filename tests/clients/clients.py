"""The clients of the matrix, as data: where each comes from, how it is asked one thing, and where it looks for its provider."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients import installed

PROGRAMS = Path(__file__).parent / "programs"
PROMPT = "Say hello."
MODEL = "fake-model"


@dataclass(frozen=True)
class Place:
    """`url` of the gateway or the relay; `home`: an empty directory."""

    url: str
    credential: str
    home: Path


@dataclass(frozen=True)
class Client:
    """`install` returns the program; `command` and `environment` are of one run. `events`: in its API's stream of five words."""

    name: str
    version: str
    api: str
    events: int
    install: Callable[[Path], Path]
    command: Callable[[Path, Place], list[str]]
    environment: Callable[[Place], dict[str, str]]
    said: Callable[[str], str] = str.strip  # what of its output is the answer
    files: Mapping[str, str] = field(default_factory=dict)  # in its home


def _anthropic(at: Place) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": at.url, "ANTHROPIC_API_KEY": at.credential}


def _openai(at: Place) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{at.url}/v1", "OPENAI_API_KEY": at.credential}


def _sdk(package: str, version: str, program: str, api: str, events: int, environment: Callable[[Place], dict[str, str]]) -> Client:
    return Client(
        f"{package} (Python){', Responses' if api == 'responses' else ''}",
        version,
        api,
        events,
        lambda below: installed.python(below, f"{package}=={version}"),
        lambda found, at: [str(found), str(PROGRAMS / program), MODEL, PROMPT],
        environment,
    )


def _claude_environment(at: Place) -> dict[str, str]:
    return {**_anthropic(at), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def _codex(found: Path, at: Place) -> list[str]:
    provider = f'{{name="fake", base_url="{at.url}/v1", env_key="OPENAI_API_KEY", wire_api="responses"}}'
    settings = ["-c", f"model_providers.fake={provider}", "-c", 'model_provider="fake"', "-c", f'model="{MODEL}"']
    return [str(found), "exec", "--skip-git-repo-check", "--json", *settings, PROMPT]


def _aider(found: Path, at: Place) -> list[str]:
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--analytics-disable", "--no-pretty"]
    return [str(found), "-m", "aider", "--model", f"anthropic/{MODEL}", *quiet, "--no-suggest-shell-commands", "--message", PROMPT]


def _codex_said(output: str) -> str:
    """Its messages, without the names and times that each run has of its own."""
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return "\n".join(event["item"].get("text", "") for event in events if event.get("type") == "item.completed")


def _aider_said(output: str) -> str:
    """What comes after it has told of itself, which ends with an address, and without tokens and costs."""
    lines = output.splitlines()
    begins = max((number for number, line in enumerate(lines) if "://" in line), default=-1) + 1
    return "\n".join(line for line in lines[begins:] if not line.startswith("Tokens:")).strip()


CLIENTS = (
    _sdk("anthropic", "2.14.0", "anthropic_stream.py", "anthropic", 11, _anthropic),
    _sdk("anthropic", "1.17.0", "anthropic_stream.py", "anthropic", 11, _anthropic),
    _sdk("openai", "3.57.0", "openai_chat.py", "chat", 8, _openai),
    _sdk("openai", "2.30.0", "openai_chat.py", "chat", 8, _openai),
    _sdk("openai", "3.57.0", "openai_responses.py", "responses", 12, _openai),
    Client(
        "Claude Code", "2.1.332", "anthropic", 11,
        lambda below: installed.node(below, "@anthropic-ai/claude-code@2.1.332", "claude"),
        lambda found, at: [str(found), "-p", PROMPT, "--model", MODEL],
        _claude_environment,
    ),
    Client(
        "Codex", "0.171.0", "responses", 12,
        lambda below: installed.node(below, "@openai/codex@0.171.0", "codex"),
        _codex,
        lambda at: {"OPENAI_API_KEY": at.credential, "CODEX_HOME": str(at.home)},
        _codex_said,
    ),
    Client(
        "gemini-cli", "0.61.0", "gemini", 5,
        lambda below: installed.node(below, "@google/gemini-cli@0.61.0", "gemini"),
        lambda found, at: [str(found), "--skip-trust", "-m", "gemini-2.5-pro", "-p", PROMPT],
        lambda at: {"GEMINI_API_KEY": at.credential, "GOOGLE_GEMINI_BASE_URL": at.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files={".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})},
    ),
    Client(
        "aider", "0.86.2", "anthropic", 11,
        lambda below: installed.python(below, "aider-chat==0.86.2"),
        _aider,
        lambda at: {**_anthropic(at), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        _aider_said,
    ),
)  # fmt: skip
