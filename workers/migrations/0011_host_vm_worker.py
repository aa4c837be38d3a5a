"""Two columns by one statement."""

from django.db import migrations, models

FORWARDS = 'ALTER TABLE "workers_host" ADD COLUMN "vm_heard_at" timestamptz NULL, ADD COLUMN "vm_missing_at" timestamptz NULL'
BACKWARDS = 'ALTER TABLE "workers_host" DROP COLUMN "vm_missing_at", DROP COLUMN "vm_heard_at"'


class Migration(migrations.Migration):
    dependencies = [("workers", "0010_host_relay_keys")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARDS, BACKWARDS)],
            state_operations=[
                migrations.AddField("host", name, models.DateTimeField(blank=True, null=True)) for name in ("vm_heard_at", "vm_missing_at")
            ],
        ),
    ]
