"""A process of its own with this test's database, store and keys; the store's URL and credentials are in the environment already."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import connection

REPOSITORY = Path(__file__).parents[3]


def run(module: str, *arguments: str) -> int:
    """Its exit status: negative is the signal that ended it."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=False, cwd=REPOSITORY, timeout=120, env=environment()).returncode


def environment() -> dict[str, str]:
    at = connection.settings_dict
    login = f"{quote(at['USER'])}:{quote(at['PASSWORD'])}@" if at["PASSWORD"] else f"{quote(at['USER'])}@"
    socket = f"?{urlencode({'host': at['HOST']})}" if at["HOST"].startswith("/") else ""
    host = "" if socket else f"{at['HOST']}:{at['PORT'] or 5432}"
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DATABASE_URL": f"postgresql://{login}{host}/{at['NAME']}{socket}",
        "KEEPSTATE_MASTER_KEY": settings.KEEPSTATE_MASTER_KEY.hex(),
    }
