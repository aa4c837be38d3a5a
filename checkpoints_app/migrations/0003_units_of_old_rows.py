"""Rows from before edges knew their units hold their packs whole, and checkpoints the manifests of all that they came from.

That is more than they need, never less; `manage.py rebuild_index` makes it exact.
"""

from django.db import migrations

from checkpoints_app.store.bitmap import all_units, encode_units

LINE = 8


def fill(apps, schema_editor):
    pack_model, edge_model = (apps.get_model("checkpoints_app", name) for name in ("Pack", "PackEdge"))
    for pack in pack_model.objects.filter(units=b"").iterator():
        whole = encode_units(all_units(pack.unit_count))
        pack_model.objects.filter(id=pack.id).update(units=whole)
        edge_model.objects.filter(pack_id=pack.id).update(units=whole)
    manifest_model, manifest_edge_model, checkpoint_model = (
        apps.get_model("checkpoints_app", name) for name in ("Manifest", "ManifestEdge", "Checkpoint")
    )
    saved = checkpoint_model.objects.exclude(manifest_id="").exclude(state="erased")
    manifest_model.objects.bulk_create(
        [manifest_model(id=row.manifest_id, account_id=row.account_id, stored_bytes=0) for row in saved.iterator()], ignore_conflicts=True
    )
    for row in saved.iterator():
        line, at = [], row
        while at is not None and at.manifest_id and len(line) < LINE:
            line.append(at.manifest_id)
            at = saved.filter(id=at.parent_id).first() if at.parent_id else None
        manifest_edge_model.objects.bulk_create(
            [manifest_edge_model(checkpoint_id=row.id, manifest_id=one) for one in line], ignore_conflicts=True
        )


class Migration(migrations.Migration):
    dependencies = [("checkpoints_app", "0002_store")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
