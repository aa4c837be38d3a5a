"""The admin login and the API token of the embedded stack. The database holds only their hashes; the texts are in 0600 files."""

import json
from dataclasses import asdict, dataclass

from keepstate_site.stack.paths import Paths, replace

PASSWORD_FILE, TOKEN_FILE = "admin_password", "api_token"


@dataclass(frozen=True)
class Logins:
    username: str
    password: str | None  # None: a person has changed it, and it is nowhere kept
    account_id: str
    token: str


def keep(paths: Paths, logins: Logins) -> None:
    replace(paths.secrets / "logins.json", json.dumps(asdict(logins)))


def kept(paths: Paths) -> Logins | None:
    try:
        return Logins(**json.loads((paths.secrets / "logins.json").read_text()))
    except FileNotFoundError:
        return None
