"""What a sign-in that is locked looks like, and what of an attempt reaches the log."""

from typing import Any

from axes.helpers import get_cool_off
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.api import address


def address_of(request: HttpRequest) -> str | None:
    return address.of(request) or None


def words_for_log(_username: str, ip_address: str, *_: Any) -> str:
    """The name is left out: people type their password where their name belongs."""
    return f"address {ip_address}"


def locked(request: HttpRequest, _response: HttpResponse | None, _credentials: dict[str, Any] | None) -> HttpResponse:
    seconds = round(get_cool_off(request).total_seconds())
    response = render(request, "sign_in/locked.html", {"minutes": seconds // 60}, status=429)
    response["Retry-After"] = str(seconds)
    return response
