class StackError(Exception):
    """The stack could not do what was asked. The text says what happened, what did not, and what to do next."""
