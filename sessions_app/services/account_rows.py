"""Every row that belongs to an account, found by the tables' own references: a table that is added later is erased like the others.

A table that names an account or a session by value is not found so, and has an eraser of its own (steps.erase, steps.erase_account); a test
holds every table to one of both.
"""

from collections.abc import Callable, Iterator
from typing import Any

from django.db import transaction
from django.db.models import ManyToOneRel, Model, QuerySet

from sessions_app.models import Account
from sessions_app.services import account_users

_BATCH = 1000  # rows that one commit erases
Told = Callable[[str, int], None]


def owned() -> dict[type[Model], str]:
    """Each table whose rows belong to an account, with the shortest path of references from it to the account's row."""
    found: dict[type[Model], str] = {}
    waiting: list[tuple[type[Model], str]] = [(Account, "")]
    while waiting:
        model, path = waiting.pop(0)
        for name, table in _referring(model):
            if table not in found and table is not Account:
                found[table] = f"{name}__{path}" if path else name
                waiting.append((table, found[table]))
    return found


def erase(account: Account, *, told: Told) -> None:
    """Batch by batch, first what refers to others. Safe to repeat. `told` is called with table and number, in each batch's commit."""
    account_users.erase(account, told=told)
    for model, path in _first_what_refers(owned()):
        _in_batches(model._default_manager.filter(**{path: account}), str(model._meta.verbose_name_plural), told)


def _referring(model: type[Model]) -> Iterator[tuple[str, type[Model]]]:
    """The tables that hold a reference to this one, with the reference's name there; those without a name back as well."""
    for relation in model._meta.get_fields(include_hidden=True):
        if isinstance(relation, ManyToOneRel) and isinstance(table := relation.related_model, type):
            yield relation.field.name, table


def _first_what_refers(found: dict[type[Model], str]) -> list[tuple[type[Model], str]]:
    ordered: list[type[Model]] = []

    def place(model: type[Model]) -> None:
        if model in ordered or model not in found:
            return
        for _, table in _referring(model):
            if table is not model:
                place(table)
        ordered.append(model)

    for model in found:
        place(model)
    return [(model, found[model]) for model in ordered]


def _in_batches(rows: "QuerySet[Any]", name: str, told: Told) -> None:
    while ids := list(rows.values_list("pk", flat=True)[:_BATCH]):
        with transaction.atomic():
            rows.model._default_manager.filter(pk__in=ids).delete()
            told(name, len(ids))
