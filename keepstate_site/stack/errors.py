from typing import ClassVar

#: The exit code of what may not run as it is, and helps nothing by starting again: sysexits' EX_CONFIG, and a worker's that was refused.
REFUSED = 78


class StackError(Exception):
    """The stack could not do what was asked. The text says what happened, what did not, and what to do next."""

    code: ClassVar[int] = 1  # what the command ends with


class Refused(StackError):
    """A process of it was refused for good."""

    code = REFUSED
