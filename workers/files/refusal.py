"""Why a guest's file could not be read or written: words for the exit codes of our scripts."""

from collections.abc import Mapping


class FileRefused(Exception):
    """`code` is stable; the text says what happened and what did not.

    Codes: absent, outside, not_a_directory, is_a_directory, not_a_file, is_a_link, exists, changed, failed, not_offered.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


REFUSALS: Mapping[int, tuple[str, str]] = {
    10: ("absent", "There is nothing at this path in the machine."),
    11: ("outside", "The path leads out of the workspace by a link."),
    12: ("not_a_directory", "A part of the path is not a directory that can be entered."),
    13: ("is_a_directory", "There is a directory at this path, not a file."),
    14: ("not_a_file", "What lies at this path is not a regular file."),
    15: ("is_a_link", "There is a symbolic link at this path; a link is neither written through nor replaced."),
    16: ("exists", "There is a file at this path already, and it was not to be replaced."),
    17: ("changed", "What arrived in the machine is not what was sent; the file at this path is as it was."),
    18: ("failed", "The machine could not write the file (its disk may be full); the file at this path is as it was."),
    19: ("failed", "The machine has no workspace directory."),
}


def refusal_of(code: int | None, said: str) -> FileRefused:
    if code is not None and code in REFUSALS:
        return FileRefused(*REFUSALS[code])
    heard = f" It said: {said}" if said else ""
    return FileRefused("failed", f"The machine did not do what it was asked (code {code}).{heard}")
