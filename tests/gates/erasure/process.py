"""A process of its own with this test's database, store and keys; the store's URL and credentials are in the environment already."""

import os
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import connection

from tests.support import victims


def run(module: str, *arguments: str) -> int:
    """Its exit status: negative is the signal that ended it."""
    return victims.run(module, *arguments, environment=environment())


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
