"""The admin's first page."""

from typing import Any

from django.http import HttpRequest


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    return context
