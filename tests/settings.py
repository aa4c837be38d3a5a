"""The product's settings with secrets drawn for one run, so that tests, type checks and migration checks need no installation."""

import os
import secrets

os.environ.setdefault("KEEPSTATE_SECRET_KEY", secrets.token_hex(32))
os.environ.setdefault("KEEPSTATE_MASTER_KEY", secrets.token_hex(32))

from keepstate_site.settings import *  # noqa: F403
from keepstate_site.settings import MIDDLEWARE, STORAGES

STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
MIDDLEWARE = [name for name in MIDDLEWARE if "whitenoise" not in name]  # it serves collected files, of which tests have none
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick, for throw-away users
KEEPSTATE_RATE_TOKEN = KEEPSTATE_RATE_ACCOUNT = KEEPSTATE_RATE_ADDRESS = 0  # most tests have no Redis; those of the rates set their own
