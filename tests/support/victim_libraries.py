"""What the programs of tests/support/victims.py have loaded when they begin. No settings, no models, no connection, no thread of ours."""

from importlib import import_module

_LIBRARIES = (
    *("boto3", "celery.app.base", "kombu.entity", "rest_framework", "structlog"),
    *("cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography.hazmat.primitives.ciphers.aead"),
    *("django.contrib.auth", "django.contrib.staticfiles", "django.core.serializers.json", "django.db.models", "django.template"),
    *("django.db.backends.postgresql", "django.urls", "psycopg", "psycopg_pool"),
    *("checkpoints_app.store", "checkpoints_app.store.backends.s3"),
)

for _name in _LIBRARIES:
    import_module(_name)
