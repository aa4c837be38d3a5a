"""`python -m tests.bench.control_rows FIRST LAST`: the bench's synthetic sessions, in the database of the stack that runs."""

import sys

import django


def main() -> None:
    django.setup()
    from checkpoints_app.models import Pin
    from checkpoints_app.services import key
    from tests.bench import api_rows

    first, last = map(int, sys.argv[1:])
    if not Pin.objects.filter(digest=api_rows.PIN).exists():
        api_rows.prepare(with_image=False)
        key.keys_to_save(api_rows.LARGE)  # the store has something of what the database tells, as it should
    api_rows.grow(first, last)
    api_rows.settle()


if __name__ == "__main__":
    main()
