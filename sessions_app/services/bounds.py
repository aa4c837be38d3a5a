"""What a request may ask for: every bound, with its check. Checks raise Invalid before anything is written."""

import re
from collections.abc import Mapping

from sessions_app.errors import Invalid

MIB = 1 << 20
MEMORY_MIB = range(128, 16384 + 1)
CPUS = range(1, 8 + 1)
BUDGET_TOKENS = range(1, 10**12 + 1)
DEFAULT_BUDGET_TOKENS = 2_000_000
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}")
IMAGE_CHARACTERS = 100
REASON_CHARACTERS = 200
EXEC_SECONDS = range(1, 3600 + 1)
DEFAULT_EXEC_SECONDS = 60
#: Words of a command, and bytes of all of them in UTF-8: below what Linux takes for one argument (128 KiB).
EXEC_WORDS = 1024
EXEC_BYTES = 64 * 1024
#: Children of one fork.
FORK_CHILDREN = range(1, 8 + 1)
#: Minutes between automatic saves; minutes without use until an idle session is warned; seconds from the warning to the parking.
SAVE_MINUTES = range(5, 120 + 1)
DEFAULT_SAVE_MINUTES = 5
IDLE_MINUTES = range(1, 24 * 60 + 1)
DEFAULT_IDLE_MINUTES = 30
WARNING_SECONDS = range(10, 3600 + 1)
DEFAULT_WARNING_SECONDS = 60
#: What a retention policy keeps at most of each kind: so many points, hours, days, weeks.
RETENTION_KEEPS = range(1000 + 1)
#: Shortest prefix of an id that names a session.
PREFIX_LENGTH = 4
#: Rows of one page: of sessions and checkpoints, and of events.
PAGE = range(1, 200 + 1)
DEFAULT_PAGE = 50
EVENT_PAGE = range(1, 1000 + 1)
DEFAULT_EVENT_PAGE = 400
#: Files of a machine: entries of one list, bytes of one read, of a file that is written, of one whose whole is hashed before it is
#: downloaded, and of one that is downloaded at all.
FILE_ENTRIES = 1000
FILE_READ_BYTES = MIB
UPLOAD_BYTES = 64 * MIB
HASHED_BYTES = 64 * MIB
DOWNLOAD_BYTES = 1024 * MIB
#: An archive that a session begins with: its bytes as sent, its files' bytes, files, files and directories, bytes of a path, how deep.
WORKSPACE_BYTES = 50 * MIB
WORKSPACE_UNPACKED_BYTES = 200 * MIB
WORKSPACE_FILES = 10_000
WORKSPACE_ENTRIES = 20_000
WORKSPACE_PATH_BYTES = 1024
WORKSPACE_DEPTH = 32
#: Files and directories of a workspace that is downloaded; its bytes are bounded as a file's are.
DOWNLOAD_ENTRIES = 20_000
#: Archives of an account that wait for their session: how many, and their bytes as they are kept.
WORKSPACES_WAITING = 16
WORKSPACES_WAITING_BYTES = 256 * MIB
#: Members of an account, its live tokens, characters of a token's name, and days of a token's life.
MEMBERS = 500
TOKENS = 1000
TOKEN_NAME_CHARACTERS = 100
TOKEN_DAYS = range(1, 3650 + 1)
#: Sign-ins of terminals that wait for a decision: from one address, and of everybody.
DEVICE_GRANTS_OF_ADDRESS = 20
DEVICE_GRANTS = 10_000
#: Bytes of a text that steers a model call.
STEER_BYTES = 64 * 1024
#: Bytes of a request's body.
BODY_BYTES = 256 * 1024


def require_memory(mib: int) -> None:
    if mib not in MEMORY_MIB:
        raise Invalid(f"Memory is a whole number of MiB from {MEMORY_MIB.start} to {MEMORY_MIB.stop - 1}. No session was started.")


def require_cpus(cpus: int) -> None:
    if cpus not in CPUS:
        raise Invalid(f"Cpus is a number from {CPUS.start} to {CPUS.stop - 1}. No session was started.")


def require_budget(tokens: int) -> None:
    if tokens not in BUDGET_TOKENS:
        raise Invalid(
            f"A budget is a whole number of tokens from {BUDGET_TOKENS.start} to {BUDGET_TOKENS.stop - 1}. No session was started.",
            next_action="Leave Budget out for the default.",
        )


def require_children(children: int) -> None:
    if children not in FORK_CHILDREN:
        raise Invalid(f"A fork has {FORK_CHILDREN.start} to {FORK_CHILDREN.stop - 1} children. Nothing was created.")


def require_name(name: str, what_was_not_done: str = "No session was started.") -> None:
    """Empty stands for no name."""
    if name and not NAME.fullmatch(name):
        raise Invalid(f"A name has 1 to 48 letters, digits, '-' or '_', and begins with a letter. {what_was_not_done}")


def require_reason(reason: str) -> None:
    if len(reason) > REASON_CHARACTERS:
        raise Invalid(f"A reason has at most {REASON_CHARACTERS} characters. Nothing was saved.")


def require_restore_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > REASON_CHARACTERS:
        raise Invalid(f"A restore is recorded with its reason, 1 to {REASON_CHARACTERS} characters. Nothing was restored.")


def require_save_interval(minutes: int) -> None:
    if minutes not in SAVE_MINUTES:
        raise Invalid(f"Automatic saves are {SAVE_MINUTES.start} to {SAVE_MINUTES.stop - 1} minutes apart. Nothing was changed.")


def require_idle(minutes: int, warning_seconds: int) -> None:
    if minutes not in IDLE_MINUTES:
        raise Invalid(f"A session may be idle for {IDLE_MINUTES.start} to {IDLE_MINUTES.stop - 1} minutes. Nothing was changed.")
    if warning_seconds not in WARNING_SECONDS:
        first, last = WARNING_SECONDS.start, WARNING_SECONDS.stop - 1
        raise Invalid(f"A warning is given {first} to {last} seconds before a session is parked. Nothing was changed.")


def require_retention(keeps: Mapping[str, int]) -> None:
    for name, count in keeps.items():
        if count not in RETENTION_KEEPS:
            raise Invalid(f"{name} is a whole number from 0 to {RETENTION_KEEPS.stop - 1}. Nothing was changed.")
    if not any(keeps.values()):
        raise Invalid(
            "A policy keeps something by its counts: one of them is at least 1. Nothing was changed.",
            next_action="Set keep_last, keep_hourly, keep_daily or keep_weekly.",
        )


def require_checkpoint_name(name: str) -> None:
    """Empty stands for no name."""
    if name and not NAME.fullmatch(name):
        raise Invalid("A name has 1 to 48 letters, digits, '-' or '_', and begins with a letter. Nothing was changed.")


def require_command(argv: list[str], timeout_seconds: int) -> None:
    if timeout_seconds not in EXEC_SECONDS:
        raise Invalid(f"A timeout is a whole number of seconds from {EXEC_SECONDS.start} to {EXEC_SECONDS.stop - 1}. Nothing was run.")
    if not argv or not argv[0]:
        raise Invalid("A command begins with the name of a program. Nothing was run.")
    if len(argv) > EXEC_WORDS or sum(len(word.encode()) for word in argv) > EXEC_BYTES:
        raise Invalid(
            f"A command has at most {EXEC_WORDS} words and {EXEC_BYTES} bytes. Nothing was run.",
            next_action="Write a longer script to a file in the session, then run the file.",
        )
