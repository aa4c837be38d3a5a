"""The reads that the bench of the API measures: what is asked, by whom, and whether the budget is for it."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.bench.api_server import Caller, serving

WARM = 20
DEEP_PAGES = 400
#: So many requests in a minute that none is refused; they are counted all the same.
RATES = {"KEEPSTATE_RATE_TOKEN": "1000000000", "KEEPSTATE_RATE_ACCOUNT": "1000000000"}
CHANGELISTS = ("sessions_app/session", "sessions_app/operation", "checkpoints_app/checkpoint")


def measure(rounds: int, directory: Path) -> list[dict[str, Any]]:
    with serving(directory / "web.log", **RATES) as url:
        caller = Caller(url, {"Authorization": f"Bearer {_token()}"})
        found = [_result(name, judged, rounds, partial(_next, caller, paths)) for name, judged, paths in _asked(caller)]
        operator = Caller(url, {"Cookie": f"sessionid={_signed_in()}"})
        found += [_result(f"admin: {page}", False, rounds, partial(operator.timed, f"/admin/{page}/")) for page in CHANGELISTS]
        found.append(_result("floor: /healthz", False, rounds, partial(Caller(url).timed, "/healthz")))
    found.append(_result("floor: SELECT 1", False, rounds, _select_one))
    return found


def _result(name: str, judged: bool, rounds: int, measured: Callable[[], float]) -> dict[str, Any]:
    return {"name": name, "judged": judged, "milliseconds": [measured() for _ in range(WARM + rounds)][WARM:]}


def _next(caller: Caller, paths: Iterator[str]) -> float:
    return caller.timed(next(paths))


def _asked(caller: Caller) -> list[tuple[str, bool, Iterator[str]]]:
    """(what, whether it has the budget, paths to ask in turn)"""
    listed = "/api/v2/sessions?source=fleet"
    first = caller.data(listed)
    deep = _deep(caller, listed, first)
    shown = [f"/api/v2/sessions/{row['id']}" for row in first["items"]]
    long = _longest()
    last = int(caller.data(f"/api/v2/sessions/{long}/events?limit=1")["items"][0]["stream_seq"]) + _events_of(long) - 150
    operations = caller.data("/api/v2/operations?limit=50")["items"]
    return [
        ("list, first page", True, cycle([listed])),
        ("list, deep page", True, cycle([f"{listed}&cursor={deep}" if deep else listed])),
        ("list, only failed ones", True, cycle([f"{listed}&state=failed"])),
        ("show", True, cycle(shown)),
        ("events, first page", True, cycle([f"{path}/events" for path in shown])),
        ("events, end of a long history", True, cycle([f"/api/v2/sessions/{long}/events?after_seq={last}"])),
        ("checkpoints, first page", False, cycle([f"{path}/checkpoints" for path in shown])),
        ("operations, first page", False, cycle(["/api/v2/operations"])),
        ("operation, read", False, cycle([f"/api/operations/{row['operation_id']}" for row in operations])),
    ]


def _deep(caller: Caller, listed: str, page: dict[str, Any]) -> str:
    """The cursor of page 400, or of the last one before the end."""
    cursor = ""
    for _ in range(DEEP_PAGES):
        if not page["next_cursor"]:
            break
        cursor = page["next_cursor"]
        page = caller.data(f"{listed}&cursor={cursor}")
    return cursor


def _longest() -> str:
    from tests.bench import copies

    return copies.scalars("SELECT bench_session(0)")[0]


def _events_of(session_id: str) -> int:
    from sessions_app.models import SessionEvent

    return SessionEvent.objects.filter(session_id=session_id).count()


def _token() -> str:
    from sessions_app.models import Account
    from sessions_app.services import token
    from tests.bench import api_rows

    return token.issue(Account.objects.get(id=api_rows.LARGE), "bench")[1]


def _signed_in() -> str:
    """The cookie of an operator who has signed in."""
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model

    user, _ = get_user_model().objects.get_or_create(username="bench", defaults={"is_staff": True, "is_superuser": True})
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


def _select_one() -> float:
    """Milliseconds."""
    from django.db import connection

    with connection.cursor() as cursor:
        began = time.perf_counter()
        cursor.execute("SELECT 1")
        cursor.fetchone()
        return (time.perf_counter() - began) * 1000
