"""`python -m tests.regressions.released.freeze COMMIT`: what this tree writes where a later release will find it, kept as data.

Run once for each release, in its tree. `newest.json` is what the release before the present one writes and reads: tables with their
columns, the newest migrations, the beat's schedule. `messages.json` grows: the tasks of every release, and the operations that it may have
left queued, whose parameters are added by hand.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def newest(commit: str) -> dict[str, Any]:
    from django.apps import apps
    from django.conf import settings
    from django.db.migrations.loader import MigrationLoader

    ours = ("sessions_app", "checkpoints_app", "gateway_app", "workers")
    models = [model for app in ours for model in apps.get_app_config(app).get_models(include_auto_created=True)]
    tables = {model._meta.db_table: " ".join(sorted(str(field.column) for field in model._meta.concrete_fields)) for model in models}
    leaves = dict(MigrationLoader(None).graph.leaf_nodes())
    schedule: dict[str, Any] = settings.CELERY_BEAT_SCHEDULE  # type: ignore[misc]  # made by the settings' own parts
    return {
        "commit": commit,
        "migrations": {app: leaves[app] for app in sorted(ours)},
        "beat": sorted(entry["task"] for entry in schedule.values()),
        "tables": dict(sorted(tables.items())),
    }


def tasks() -> dict[str, int]:
    """How many arguments each task of ours takes."""
    from celery import current_app

    current_app.loader.import_default_modules()
    ours = {name: task for name, task in current_app.tasks.items() if name.startswith("workers.")}
    return {name: len(inspect.signature(task.run).parameters) for name, task in sorted(ours.items())}


def main(commit: str) -> None:
    import django

    django.setup()
    (HERE / "newest.json").write_text(json.dumps(newest(commit), indent=2) + "\n")
    messages = json.loads((HERE / "messages.json").read_text())
    messages["tasks"] |= tasks()
    (HERE / "messages.json").write_text(json.dumps(messages, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
