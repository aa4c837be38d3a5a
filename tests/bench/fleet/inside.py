"""Run with the stack's settings by the judge: eight days pass for what no row names, and the store is looked at. Prints JSON."""

import json
from datetime import timedelta

import django

_LOOKS = 3  # seen first; a day later put into quarantine; a week later deleted


def main() -> None:
    django.setup()
    from django.db.models import F

    from checkpoints_app.models import Manifest, OrphanObject, Pack
    from checkpoints_app.services import orphans, storage
    from checkpoints_app.store.names import QUARANTINE

    for _ in range(_LOOKS):
        orphans.sweep()
        for name in ("first_seen_at", "quarantined_at"):
            OrphanObject.objects.filter(**{f"{name}__isnull": False}).update(**{name: F(name) - timedelta(days=8)})
    orphans.sweep()
    keys = sorted(listed.key for listed in storage.backend().list(""))
    named = [*Pack.objects.values_list("id", flat=True), *Manifest.objects.values_list("id", flat=True)]
    missing = [one for one in named if not any(one in key for key in keys)]
    nobodys = [*orphans.unknown(keys), *(key for key in keys if key.startswith(QUARANTINE))]
    print(json.dumps({"keys": keys, "nobodys": nobodys, "missing": missing}))


if __name__ == "__main__":
    main()
