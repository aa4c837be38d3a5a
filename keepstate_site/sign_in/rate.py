"""How often passwords and codes may be tried, whatever the name: a password costs the server a tenth of a second to check."""

from collections.abc import Callable
from functools import cached_property

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from sessions_app.api import address
from sessions_app.errors import Throttled
from sessions_app.services import throttle
from sessions_app.services.throttle import Bucket

#: Passwords of an address, at both logins together; and short codes of a signed-in person: enough for typing errors, useless for guessing.
PASSWORDS_PER_MINUTE = 30
CODES_PER_MINUTE = 20


def password_tried(request: HttpRequest) -> None:
    """Raises Throttled."""
    throttle.require([Bucket(f"passwords:{address.bucket(request)}", _bounded(PASSWORDS_PER_MINUTE), "This address")])


def code_tried(request: HttpRequest) -> None:
    """Prerequisite: somebody is signed in. Raises Throttled."""
    throttle.require([Bucket(f"user-code:{request.user.pk}", _bounded(CODES_PER_MINUTE), "Your user")])


def _bounded(rate: int) -> int:
    """An installation without a bound for addresses has none here either."""
    return min(rate, settings.KEEPSTATE_RATE_ADDRESS)


class PasswordRateMiddleware:
    def __init__(self, handler: Callable[[HttpRequest], HttpResponse]):
        self.handler = handler

    @cached_property
    def logins(self) -> frozenset[str]:
        return frozenset({reverse("sign-in"), reverse("admin:login")})

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST" and request.path in self.logins:
            try:
                password_tried(request)
            except Throttled as error:
                response = render(request, "sign_in/throttled.html", {"seconds": error.retry_after_seconds}, status=error.status)
                response["Retry-After"] = str(error.retry_after_seconds)
                return response
        return self.handler(request)
