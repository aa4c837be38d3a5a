"""The product's settings with one mechanism switched off, by KEEPSTATE_SABOTAGE: with it, the mechanism's gate must fail."""

from keepstate_site.settings import *  # noqa: F403
from keepstate_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.sabotage"]
