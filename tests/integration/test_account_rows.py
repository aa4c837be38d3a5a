"""Whatever a table says of an account or a session goes with it: found by reference, or declared here with what erases it."""

import pytest
from django.apps import apps
from django.db import models

from sessions_app.models import Account, Session
from sessions_app.services import account_rows

#: Tables that name an account or a session by value. Those that stay hold ids and figures alone; the others are erased through a reference
#: that they have beside it.
STAY = {
    "sessions_app.servicerecord": "the service record, under its own retention",
    "sessions_app.accountdeletion": "the deletion itself",
    "checkpoints_app.erasurereceipt": "its receipt",
}
_VALUES = {"account_id", "session_id", "account", "session"}


def _names_by_value(model: type[models.Model]) -> bool:
    return any(field.name in _VALUES and not field.is_relation for field in model._meta.get_fields() if isinstance(field, models.Field))


def test_every_table_that_names_an_account_or_a_session_is_erased_or_declared() -> None:
    erased = set(account_rows.owned())
    forgotten = [model._meta.label_lower for model in apps.get_models() if _names_by_value(model) and model not in erased]
    assert sorted(forgotten) == sorted(STAY), "give the new table a reference to its account, or declare why it stays"


def test_every_reference_to_an_account_or_a_session_is_followed() -> None:
    erased = set(account_rows.owned())
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if isinstance(field, models.ForeignKey) and field.related_model in (Account, Session, *erased):
                assert model in erased, f"{model._meta.label} refers to {field.related_model} and is not erased with it"


def test_the_test_notices_a_table_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(STAY, "sessions_app.servicerecord")
    with pytest.raises(AssertionError, match="declare why it stays"):
        test_every_table_that_names_an_account_or_a_session_is_erased_or_declared()


def test_what_refers_to_others_goes_first() -> None:
    ordered = [model for model, _ in account_rows._first_what_refers(account_rows.owned())]
    for model in ordered:
        for field in model._meta.get_fields():
            if isinstance(field, models.ForeignKey) and field.related_model in ordered and field.related_model is not model:
                assert ordered.index(model) < ordered.index(field.related_model), (model, field)
