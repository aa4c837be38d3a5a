"""`python -m keepstate_site.bytecode`: compile ahead what the product's processes import.

A service's user may not write beside the code (deploy/systemd): each of its processes would compile all that it imports, at each start.
Here the import itself leaves the bytecode beside each file, with the file's time and size: what changes later is compiled by whoever
imports it, as ever.

Prerequisites: the environment does not forbid bytecode (PYTHONDONTWRITEBYTECODE), and this user may write there; where he may not, nothing
is written and nothing fails. Needs no server and no key of the installation.
"""

import os
from importlib import import_module

import django

from keepstate_site.stack import keys

#: Beside what django.setup() and the pages' addresses bring: what a process imports only once it runs.
ENTRIES = (
    "keepstate_site.asgi",
    "keepstate_site.serve",
    "keepstate_site.urls",
    "keepstate_site.beat",
    "keepstate_site.stack.__main__",
    "keepstate_site.stack.prepare",
    "workers.tasks",
    "workers.management.commands.run_worker",
    "workers.management.commands.run_gateway",
    "workers.management.commands.check_fleet",
    "celery.bin.celery",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "celery.worker.worker",
    "kombu.transport.redis",
    "uvicorn.loops.auto",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)


def main() -> None:
    os.environ.update({name: value for name, value in keys.made_up().items() if name not in os.environ})
    os.environ["DJANGO_SETTINGS_MODULE"] = "keepstate_site.settings"
    django.setup()
    for name in ENTRIES:
        import_module(name)


if __name__ == "__main__":
    main()
