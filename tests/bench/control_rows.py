"""`python -m tests.bench.control_rows FIRST LAST`: the bench's synthetic sessions, in the database of the stack that runs."""

import sys
import time

import django

#: Fewer than in the bench of the API: nothing of it is read, and what an operation meets grows with the sessions.
CHECKPOINTS, EVENTS, OPERATIONS = 2, 10, 5


def main() -> None:
    django.setup()
    from django.db import connection

    from checkpoints_app.models import Pin
    from checkpoints_app.services import key
    from tests.bench import api_rows

    first, last = map(int, sys.argv[1:])
    began = time.monotonic()
    if not Pin.objects.filter(digest=api_rows.PIN).exists():
        api_rows.prepare(with_image=False)
        key.keys_to_save(api_rows.LARGE)  # the store has something of what the database tells, as it should
    api_rows.grow(first, last, api_rows.Depth(CHECKPOINTS, EVENTS, OPERATIONS))
    grown = time.monotonic()
    api_rows.settle()
    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")  # else what was made is written while the measuring goes on
    print(f"{last - first + 1} sessions were made in {grown - began:.1f} s, tidied in {time.monotonic() - grown:.1f} s", flush=True)


if __name__ == "__main__":
    main()
