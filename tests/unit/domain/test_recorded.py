"""Mutations that are no operations: one effect and one answer per key."""

import pytest

from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Account, RecordedRequest
from sessions_app.services import recorded
from sessions_app.services.operation import Asked
from sessions_app.services.recorded import Answer
from tests.support.fleet import Tenant, session_row
from tests.support.threads import at_once

ASKED = Asked(method="POST", path="/api/v2/things", idempotency_key="ksop_0123456789abcdef", body={"a": 1})


def _make(name: str) -> Answer:
    made = Account.objects.create(name=name)
    return Answer({"id": made.id}, 201, told_once={"secret": "drawn"})


@pytest.mark.django_db
def test_a_repeated_request_is_answered_as_the_first_but_for_what_is_told_once(owner: Tenant) -> None:
    first, replayed = recorded.once(owner.account, ASKED, lambda: _make("one"))
    again, replayed_again = recorded.once(owner.account, ASKED, lambda: _make("two"))
    assert (replayed, replayed_again) == (False, True)
    assert (again.data, again.status, again.told_once) == (first.data, 201, {})
    assert first.told_once == {"secret": "drawn"}
    assert not Account.objects.filter(name="two").exists()


@pytest.mark.django_db
def test_a_secret_that_is_told_once_is_in_no_row(owner: Tenant) -> None:
    recorded.once(owner.account, ASKED, lambda: _make("one"))
    assert "drawn" not in str(RecordedRequest.objects.values_list("answer", flat=True).get())


@pytest.mark.django_db
def test_a_refused_request_leaves_its_key_free(owner: Tenant) -> None:
    def refuse() -> Answer:
        Account.objects.create(name="half")
        raise Invalid("no")

    with pytest.raises(Invalid):
        recorded.once(owner.account, ASKED, refuse)
    assert not Account.objects.filter(name="half").exists()
    assert recorded.once(owner.account, ASKED, lambda: _make("one"))[1] is False


@pytest.mark.django_db
def test_a_key_of_another_request_is_refused_and_nothing_is_done(owner: Tenant) -> None:
    recorded.once(owner.account, ASKED, lambda: _make("one"))
    other = Asked(method="POST", path="/api/v2/things", idempotency_key=ASKED.idempotency_key, body={"a": 2})
    with pytest.raises(Conflict) as refused:
        recorded.once(owner.account, other, lambda: _make("two"))
    assert refused.value.word == "ks_idempotency_conflict"
    assert not Account.objects.filter(name="two").exists()


@pytest.mark.django_db(transaction=True)
def test_of_equal_requests_at_the_same_time_one_has_the_effect(owner: Tenant) -> None:
    answers = at_once(4, lambda number: recorded.once(owner.account, ASKED, lambda: _make(f"racer {number}")))
    assert sorted(replayed for _, replayed in answers) == [False, True, True, True]
    assert len({answer.data["id"] for answer, _ in answers}) == 1
    assert Account.objects.filter(name__startswith="racer").count() == 1


@pytest.mark.django_db
def test_an_answer_about_a_session_goes_with_its_content(owner: Tenant) -> None:
    session = session_row(owner.account)
    recorded.once(owner.account, ASKED, lambda: Answer({"name": "secret-plan"}, session_id=session.id))
    assert recorded.erase_session(session) == {"answers": 1}
    assert not RecordedRequest.objects.exists()
