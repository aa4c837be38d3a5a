"""A worker whose clock is wrong, and that looks at the store: scrub, orphans, erasure.

Run as `python -m tests.gates.erasure.skewed SECONDS SABOTAGE`, with the gate's database, store and master key in its environment.
"""

import datetime as dates
import sys
import time

REFUSED = 3  # exit status: the store's server does not accept this clock
replace = setattr  # of what belongs to the product, in this process alone


def skew(seconds: float) -> None:
    """time.time, Django's now, and the time that requests to S3 are signed with, for everything in this process."""
    right = time.time
    replace(time, "time", lambda: right() + seconds)
    from botocore import auth
    from django.utils import timezone

    replace(timezone, "now", lambda: dates.datetime.fromtimestamp(right() + seconds, dates.UTC))
    signed_at = auth.get_current_datetime
    replace(auth, "get_current_datetime", lambda *arguments, **named: signed_at(*arguments, **named) + dates.timedelta(seconds=seconds))


def main() -> None:
    seconds, kind = float(sys.argv[1]), sys.argv[2]
    skew(seconds)
    import django

    django.setup()
    from checkpoints_app.services import orphans, upkeep
    from checkpoints_app.store import UnavailableError

    if kind == "own_clock":
        from django.db.models import DateTimeField, Value
        from django.utils import timezone

        replace(orphans, "Now", lambda: Value(timezone.now(), output_field=DateTimeField()))
    try:
        upkeep.every_minute()
        orphans.sweep()
    except UnavailableError as error:
        sys.exit(REFUSED if "clock" in str(error) else 1)


if __name__ == "__main__":
    main()
