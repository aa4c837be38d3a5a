"""The admin login and the API token of the embedded stack, kept in 0600 files. The database holds only their hashes."""

import json
from typing import Any

from keepstate_site.stack.paths import Paths, replace

ADMIN, TOKEN = "admin_login", "api_token"


def keep(paths: Paths, name: str, facts: dict[str, Any]) -> None:
    replace(paths.secrets / name, json.dumps(facts))


def kept(paths: Paths, name: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads((paths.secrets / name).read_text()))
    except (FileNotFoundError, ValueError):
        return None
