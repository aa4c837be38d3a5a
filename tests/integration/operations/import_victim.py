"""A process that imports an export and dies of SIGKILL at a named step: FILE ACCOUNT KEY STEP DATABASE STORE."""

import os
import signal
import sys


def main() -> None:
    file, account_id, key, step, database, store = sys.argv[1:]
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = database
    settings.STORAGES["checkpoints"]["OPTIONS"]["location"] = store
    django.setup()
    from checkpoints_app.services.import_ import import_
    from checkpoints_app.store import SecretKey
    from sessions_app.models import Account

    def die_at(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with open(file, "rb") as opened:
        import_(Account.objects.get(id=account_id), opened, SecretKey(bytes.fromhex(key)), step=die_at)


if __name__ == "__main__":
    main()
