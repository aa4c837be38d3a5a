"""Cookies and headers. TLS-only ones are on where KEEPSTATE_TLS=1 says that browsers come over TLS."""

from typing import Any

CONTENT_POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: The admin's pages use Alpine.js, which makes functions of the expressions in its attributes. Its build without that knows only a part of
#: what they contain. Scripts come from here alone all the same, and none may stand in a page (docs/threat-model.md).
ADMIN_PREFIX = "/admin/"
ADMIN_CONTENT_POLICY = f"{CONTENT_POLICY}; script-src 'self' 'unsafe-eval'"
HSTS_SECONDS = 31_536_000


def settings(*, tls: bool, behind_proxy: bool) -> dict[str, Any]:
    return {
        "SECURE_CONTENT_TYPE_NOSNIFF": True,
        "SECURE_REFERRER_POLICY": "same-origin",
        "SECURE_CROSS_ORIGIN_OPENER_POLICY": "same-origin",
        "X_FRAME_OPTIONS": "DENY",
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SESSION_COOKIE_SECURE": tls,
        "CSRF_COOKIE_SECURE": tls,
        "SECURE_SSL_REDIRECT": tls,
        "SECURE_REDIRECT_EXEMPT": [r"^healthz$", r"^readyz$", r"^metrics$"],
        "SECURE_HSTS_SECONDS": HSTS_SECONDS if tls else 0,
        # A client could send this header itself, so it counts only where a proxy is known to overwrite it.
        "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https") if behind_proxy else None,
        "AUTH_PASSWORD_VALIDATORS": [
            {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
            {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
        ],
    }
