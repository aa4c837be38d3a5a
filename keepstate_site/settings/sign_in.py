"""People's passwords: where they are asked for, and when a name is locked. The admin's login and the terminal page's share both."""

from datetime import timedelta
from typing import Any


def settings(*, failures: int, lock_minutes: int) -> dict[str, Any]:
    return {
        "LOGIN_URL": "sign-in",
        "LOGIN_REDIRECT_URL": "device",
        "LOGOUT_REDIRECT_URL": "sign-in",
        "AUTHENTICATION_BACKENDS": ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"],
        # A name is locked for the address that failed with it, so that a stranger elsewhere cannot lock its owner out.
        "AXES_LOCKOUT_PARAMETERS": [["username", "ip_address"]],
        "AXES_FAILURE_LIMIT": failures,
        "AXES_COOLOFF_TIME": timedelta(minutes=lock_minutes),
        "AXES_RESET_ON_SUCCESS": True,
        "AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT": False,  # whoever tries on is not locked for ever
        "AXES_HANDLER": "axes.handlers.database.AxesDatabaseHandler",
        "AXES_CLIENT_IP_CALLABLE": "keepstate_site.sign_in.lock.address_of",
        "AXES_CLIENT_STR_CALLABLE": "keepstate_site.sign_in.lock.words_for_log",
        "AXES_LOCKOUT_CALLABLE": "keepstate_site.sign_in.lock.locked",
        "AXES_SENSITIVE_PARAMETERS": ["username", "password", "csrfmiddlewaretoken"],  # not kept with an attempt
        "AXES_DISABLE_ACCESS_LOG": True,  # it grows with every sign-in, and nothing of ours reads it
        "AXES_ENABLE_ADMIN": False,
        "AXES_VERBOSE": False,
    }
