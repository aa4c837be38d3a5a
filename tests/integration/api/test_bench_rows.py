"""The bench of the API makes its rows by SQL: what it leaves out, a column of its own that a table has got since, is told here."""

import pytest

from checkpoints_app.models import Checkpoint, PackEdge
from sessions_app.models import Operation, Session, SessionEvent
from tests.bench import api_rows
from tests.bench.copies import insert
from tests.support.api import Caller


def test_the_rows_of_the_bench_are_sessions_that_the_api_shows(api: Caller) -> None:
    api_rows.prepare()
    api_rows.grow(0, 4)
    assert Session.objects.filter(account_id="acct_bench_large").count() == 3
    assert Checkpoint.objects.count() == PackEdge.objects.count() + api_rows.CHECKPOINTS * (api_rows.LONG - 1)
    assert SessionEvent.objects.filter(session_id=Session.objects.get(name="agent-0").id).count() == api_rows.EVENTS * api_rows.LONG
    assert Operation.objects.count() == 5 * api_rows.OPERATIONS


def test_a_column_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no columns"):
        insert(Session(image_name="tiny"), "generate_series(1, 1) n", no_such="1")
