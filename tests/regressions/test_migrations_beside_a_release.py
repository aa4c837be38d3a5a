"""Placement's indexes were first made the plain way, which keeps every writer of operations out. A migration that is not released yet will
be applied to a service that works, whose processes of the release before go on: none takes a long lock, and none breaks what they write.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from tests.support.migration_rules import findings

#: The newest migration of each app that was released; what is newer is judged. What was released stays as it is.
RELEASED = json.loads((Path(__file__).parent / "released" / "newest.json").read_text())["migrations"]
#: (app, migration): why it may do what the rules refuse.
EXCUSED: dict[tuple[str, str], str] = {}
#: Rules of squawk that are not ours: `manage.py migrate` sets time-outs and repeats, and the columns' types are the models'.
NOT_OURS = (
    "prefer-robust-stmts",
    "require-lock-timeout",
    "require-statement-timeout",
    "prefer-text-field",
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
)
SQUAWK = shutil.which("squawk") or str(Path(sys.executable).with_name("squawk"))


@pytest.fixture
def loader(db: None) -> MigrationLoader:
    return MigrationLoader(connection, replace_migrations=False)


def unreleased(loader: MigrationLoader) -> list[tuple[str, str]]:
    """In the order in which they are applied."""
    plan: list[tuple[str, str]] = []
    for app in sorted(RELEASED):
        for leaf in loader.graph.leaf_nodes(app):
            plan += [key for key in loader.graph.forwards_plan(leaf) if key not in plan]
    return [(app, name) for app, name in plan if app in RELEASED and name > RELEASED[app]]


def linted(directory: Path) -> list[str]:
    """What squawk says of the SQL files there, a line each."""
    files = [str(file) for file in sorted(directory.glob("*.sql"))]
    said = subprocess.run(
        [SQUAWK, "--reporter", "gcc", "--pg-version", "15", f"--exclude={','.join(NOT_OURS)}", *files],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert said.returncode in (0, 1), said.stderr
    return [line for line in said.stdout.splitlines() if ": " in line]


def write_sql(directory: Path, loader: MigrationLoader, key: tuple[str, str]) -> None:
    migration = loader.graph.nodes[key]
    sql = "\n".join(loader.collect_sql([(migration, False)]))
    (directory / f"{'.'.join(key)}.sql").write_text(f"BEGIN;\n{sql}\nCOMMIT;\n" if migration.atomic else sql + "\n")


def test_what_was_released_is_known(loader: MigrationLoader) -> None:
    assert set(RELEASED.items()) <= set(loader.graph.nodes)
    assert unreleased(loader)


def test_no_migration_holds_up_a_service_that_works_or_breaks_the_release_before(loader: MigrationLoader) -> None:
    new_tables: set[str] = set()
    found = {}
    for app, name in unreleased(loader):
        before = loader.project_state((app, name), at_end=False)
        found[app, name] = list(findings(app, loader.graph.nodes[app, name], before, new_tables))
    assert {key: said for key, said in found.items() if said and key not in EXCUSED} == {}


@pytest.mark.django_db(transaction=True)  # a concurrent index refuses to be written within a transaction
def test_no_statement_of_a_migration_takes_a_long_lock(loader: MigrationLoader, tmp_path: Path) -> None:
    for key in unreleased(loader):
        if key not in EXCUSED:
            write_sql(tmp_path, loader, key)
    assert linted(tmp_path) == []


def test_the_linter_of_statements_is_there_and_bites(tmp_path: Path) -> None:
    (tmp_path / "plain.sql").write_text('CREATE INDEX "waits" ON "sessions_app_operation" ("accepted_at");\n')
    assert "require-concurrent-index-creation" in linted(tmp_path)[0]


def migration_of(*operations: Operation, atomic: bool = True) -> Migration:
    return type("Next", (Migration,), {"operations": list(operations), "atomic": atomic})("next", "sessions_app")


AN_INDEX = models.Index(fields=["name"], name="any")
REFUSED = [
    (migrations.AddField("session", "rack", models.CharField(max_length=9, default="")), "give it a db_default"),
    (migrations.AddField("session", "rack", models.IntegerField(null=True, db_index=True)), "the index concurrently"),
    (migrations.AlterField("session", "name", models.TextField(blank=True)), "its type"),
    (migrations.AlterField("session", "name", models.CharField(max_length=20, blank=True)), "a shorter text"),
    (migrations.AlterField("session", "failure", models.JSONField()), "NOT NULL"),
    (migrations.AlterField("session", "created_at", models.DateTimeField()), "db_default stays"),
    (migrations.AddIndex("session", AN_INDEX), "AddIndexConcurrently"),
    (migrations.AddConstraint("session", models.CheckConstraint(condition=models.Q(cpus__gt=0), name="any")), "NOT VALID first"),
    (migrations.RemoveField("session", "name"), "the release before still uses it"),
    (migrations.RunPython(migrations.RunPython.noop), "moves data"),
    (migrations.SeparateDatabaseAndState([migrations.RunSQL("UPDATE any SET cpus = 1")]), "moves data"),
    (
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL("ALTER TABLE any ADD rack int")],
            [migrations.AddField("session", "rack", models.IntegerField(default=0))],
        ),
        "give it a db_default",
    ),
]


@pytest.mark.parametrize(("operation", "words"), REFUSED, ids=lambda one: type(one).__name__ if not isinstance(one, str) else one)
def test_an_operation_that_would_is_refused(loader: MigrationLoader, operation: Operation, words: str) -> None:
    (said,) = findings("sessions_app", migration_of(operation), loader.project_state(), set())
    assert words in said


ALLOWED = [
    migrations.AddField("session", "rack", models.CharField(max_length=9, default="", db_default="")),
    migrations.AddField("session", "seen_at", models.DateTimeField(null=True)),
    migrations.AlterField("session", "name", models.CharField(max_length=90, blank=True)),
    migrations.AddIndex("other", AN_INDEX),
    migrations.SeparateDatabaseAndState(
        [migrations.RunSQL("ALTER TABLE any ADD rack int, ADD row int")],
        [migrations.AddField("session", name, models.IntegerField(null=True)) for name in ("rack", "row")],
    ),
]


@pytest.mark.parametrize("operation", ALLOWED, ids=lambda one: one.describe())
def test_an_operation_that_would_not_is_allowed(loader: MigrationLoader, operation: Operation) -> None:
    other = migrations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())])
    assert list(findings("sessions_app", migration_of(other, operation), loader.project_state(), set())) == []


def test_without_a_transaction_there_is_one_concurrent_index_and_nothing_else(loader: MigrationLoader) -> None:
    indexes = [AddIndexConcurrently("session", index) for index in (AN_INDEX, models.Index("cpus", name="another"))]
    (said,) = findings("sessions_app", migration_of(*indexes, atomic=False), loader.project_state(), set())
    assert "one concurrent index" in said
