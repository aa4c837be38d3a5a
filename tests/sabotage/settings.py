"""The product's settings with a switch for its mechanisms (KEEPSTATE_SABOTAGE_FILE): with one off, that mechanism's gate must fail."""

from keepstate_site.settings import *  # noqa: F403
from keepstate_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.sabotage"]
