"""What a migration may do to a service that works while it is applied: rules over Django's operations.

A linter of SQL (squawk) sees statements. It does not see code that moves data, nor whether the release before can still write: its INSERT
names no column that it does not know, and its queries name those that it knows.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db.migrations import Migration, operations
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import ManyToManyField
from django.db.models.fields import NOT_PROVIDED

CONCURRENT = (AddIndexConcurrently, RemoveIndexConcurrently)
#: What of a field may change without a look at the rows: the database does not know of it, or only of its next INSERT.
_HARMLESS = frozenset(
    {
        "blank",
        "choices",
        "db_default",
        "default",
        "editable",
        "error_messages",
        "help_text",
        "max_length",
        "null",
        "on_delete",
        "related_name",
    }
    | {"validators", "verbose_name"}
)


def findings(app: str, migration: Migration, before: ProjectState, new_tables: set[str]) -> Iterator[str]:
    """What of the migration would hold up a working service or break the release before. `new_tables` (`app.model`) are nobody's yet, and
    grow by those that it makes.
    """
    if not migration.atomic and (len(migration.operations) != 1 or not isinstance(migration.operations[0], CONCURRENT)):
        yield "a migration without a transaction is one concurrent index and nothing else: that alone is found and removed half done"
    state = before.clone()
    for operation in migration.operations:
        made = state.clone()
        operation.state_forwards(app, made)
        table = f"{app}.{getattr(operation, 'model_name', getattr(operation, 'name', '')).lower()}"
        if isinstance(operation, operations.CreateModel):
            new_tables.add(table)
        elif table not in new_tables:
            for said in _judge(operation, state, made, app):
                yield f"{operation.describe()}: {said}"
        state = made


def _judge(operation: Operation, state: ProjectState, made: ProjectState, app: str) -> Iterator[str]:
    for kind, rule in RULES.items():
        if type(operation) is kind:
            yield from rule(operation, state, made, app)
            return
    yield "no rule knows this operation: write one (tests/support/migration_rules.py)"


def _fine(*_: object) -> Iterator[str]:
    yield from ()


def _says(what: str) -> Callable[..., Iterator[str]]:
    def rule(*_: object) -> Iterator[str]:
        yield what

    return rule


def _field(state: ProjectState, app: str, operation: operations.AddField | operations.AlterField) -> Any:
    return state.models[app, operation.model_name_lower].get_field(operation.name)


def _add_field(operation: operations.AddField, _: ProjectState, made: ProjectState, app: str) -> Iterator[str]:
    field = _field(made, app, operation)
    if isinstance(field, ManyToManyField):
        return
    if not field.null and field.db_default is NOT_PROVIDED:
        yield "the release before inserts rows without it: give it a db_default, or null=True"
    if field.unique or field.db_index:
        yield "its index keeps writers out: add the field without, and the index concurrently"


def _alter_field(operation: operations.AlterField, state: ProjectState, made: ProjectState, app: str) -> Iterator[str]:
    before, after = (_field(one, app, operation) for one in (state, made))
    (_, path, _, old), (_, new_path, _, new) = before.deconstruct(), after.deconstruct()
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    if path != new_path or changed - _HARMLESS:
        what = ", ".join(sorted(changed - _HARMLESS)) or "its type"
        yield f"rewrites or reads the table ({what}): add a field, move to it, drop this one later"
    elif "max_length" in changed and (after.max_length or 0) < (before.max_length or 0):
        yield "a shorter text reads the whole table under its lock"
    if before.null and not after.null:
        yield "NOT NULL reads the whole table under its lock: a CHECK (...) NOT VALID, validated later, comes first"
    if before.db_default is not NOT_PROVIDED and after.db_default is NOT_PROVIDED:
        yield "the release before inserts rows without it: its db_default stays until that is gone"


def _separate(operation: operations.SeparateDatabaseAndState, state: ProjectState, _: ProjectState, app: str) -> Iterator[str]:
    """Several changes to a table by one ALTER TABLE, whose SQL squawk sees: each is judged as if it stood alone."""
    if not all(type(one) is operations.RunSQL and str(one.sql).split()[:2] == ["ALTER", "TABLE"] for one in operation.database_operations):
        yield from _MOVES_DATA()
    for one in operation.state_operations:
        made = state.clone()
        one.state_forwards(app, made)
        yield from _judge(one, state, made, app)
        state = made


_STILL_USED = _says("the release before still uses it: it goes a release after the last that used it, with its reason in EXCUSED")
_READS_ALL = _says("reads the whole table under a lock that keeps writers out: NOT VALID first, validated in a migration of its own")
_MOVES_DATA = _says("moves data: say in EXCUSED why it is bounded, holds no lock for long and may be done twice")

RULES: Mapping[type[Operation], Callable[..., Iterator[str]]] = {
    operations.AddField: _add_field,
    operations.AlterField: _alter_field,
    operations.AddIndex: _says("keeps writers out while it is built: AddIndexConcurrently, in a migration of its own (atomic = False)"),
    operations.RemoveIndex: _says("takes the table's lock: RemoveIndexConcurrently, in a migration of its own (atomic = False)"),
    operations.AddConstraint: _READS_ALL,
    operations.AlterUniqueTogether: _READS_ALL,
    operations.RemoveField: _STILL_USED,
    operations.DeleteModel: _STILL_USED,
    operations.RenameField: _STILL_USED,
    operations.RenameModel: _STILL_USED,
    operations.AlterModelTable: _STILL_USED,
    operations.RunPython: _MOVES_DATA,
    operations.RunSQL: _MOVES_DATA,
    operations.SeparateDatabaseAndState: _separate,
    operations.RemoveConstraint: _fine,
    operations.RenameIndex: _fine,
    operations.AlterModelOptions: _fine,
    operations.AlterModelManagers: _fine,
    AddIndexConcurrently: _fine,
    RemoveIndexConcurrently: _fine,
}
