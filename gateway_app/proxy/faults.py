"""What a log is told of an exception that nobody foresaw: its kind and where it arose. Its words may be a customer's, or hold a key."""

import logging
import traceback
from pathlib import PurePath

_FRAMES = 12


def told(error: BaseException) -> dict[str, object]:
    """For a line's `extra`: the newest frames last, without a value of any of them."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = [f"{'/'.join(PurePath(frame.filename).parts[-3:])}:{frame.lineno} {frame.name}" for frame in frames]
    return {"reason": type(error).__name__, "at": places}


class Wordless(logging.Filter):
    """For a library's logger: its lines without the exceptions that they quote, which quote in turn what a machine sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
            record.__dict__ |= {"exc_info": None, "exc_text": None, "reason": type(error).__name__}
        return True
