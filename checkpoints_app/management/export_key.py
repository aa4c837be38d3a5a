"""The key of an export, as an operator hands it to the commands: 64 hex digits in a file that only they can read, or on standard input."""

import sys
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError

from checkpoints_app.store import SecretKey
from sessions_app.services import secret_file

STANDARD_INPUT = Path("-")


def add_argument(parser: ArgumentParser, *, help_: str, required: bool) -> None:
    parser.add_argument("--key-file", type=Path, default=None, required=required, help=help_)


def read(file: Path) -> SecretKey | None:
    """None if the file is not there. Raises CommandError, before anything is done, for one that others can read or that holds no key."""
    try:
        text = sys.stdin.readline().strip() if file == STANDARD_INPUT else secret_file.read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The key file cannot be used: {error} Nothing was done.") from error
    if text is None:
        return None
    try:
        return SecretKey(bytes.fromhex(text))
    except ValueError:
        raise CommandError(f"{file} does not hold a key of 64 hex digits. Nothing was done.") from None


def require(file: Path) -> SecretKey:
    key = read(file)
    if key is None:
        raise CommandError(f"{file} is not there, or is empty. Nothing was done.")
    return key


def draw(file: Path | None) -> tuple[SecretKey, str | None]:
    """A new key, kept in the file; or, without one, the text that its owner must be shown now, for it is kept nowhere."""
    key = SecretKey.random()
    if file is None:
        return key, key.reveal().hex()
    try:
        secret_file.write(file, key.reveal().hex())
    except OSError as error:
        raise CommandError(f"The key file cannot be written: {error}. Nothing was exported.") from error
    return key, None
