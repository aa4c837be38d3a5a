"""The operator's login to the admin."""

import secrets
from pathlib import Path

from django.contrib.auth import get_user_model

from sessions_app.services import secret_file

USERNAME = "operator"


def ensure_operator(file: Path | None = None) -> str | None:
    """A superuser that can sign in; returns the password, or None if a person has changed it since the file was written.

    With a file, its password is kept and used again. Without one, a password is drawn and set each time, for nobody could know the
    last one. The file is written before the user: a death between leaves a file that the next call makes true.
    """
    kept = secret_file.read(file) if file else None
    password = kept or secrets.token_urlsafe(18)
    if file and not kept:
        secret_file.write(file, password)
    user, made = get_user_model().objects.get_or_create(username=USERNAME, defaults={"is_staff": True, "is_superuser": True})
    if user.check_password(password):
        return password
    if kept and not made and user.has_usable_password():
        return None
    user.set_password(password)
    user.is_staff = user.is_superuser = user.is_active = True
    user.save()
    return password
