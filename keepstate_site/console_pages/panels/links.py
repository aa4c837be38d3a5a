"""Addresses of the admin's own pages."""

from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse


def rows(model: str, **filters: str) -> str:
    """The list of `app_model`, filtered."""
    return reverse(f"admin:{model}_changelist") + (f"?{urlencode(filters)}" if filters else "")


def row(model: str, key: str) -> str:
    return reverse(f"admin:{model}_change", args=[quote(key)])
