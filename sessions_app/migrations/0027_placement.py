"""Three columns by one statement: Django's own three hold the table's lock, one after the other, while it renders its models in between."""

from django.db import migrations, models

FORWARDS = """
ALTER TABLE "sessions_app_operation"
  ADD COLUMN "host_id" varchar(64) DEFAULT '' NOT NULL,
  ADD COLUMN "reserved_bytes" bigint DEFAULT 0 NOT NULL CHECK ("reserved_bytes" >= 0),
  ADD COLUMN "waits_for" varchar(40) DEFAULT '' NOT NULL
"""
BACKWARDS = """
ALTER TABLE "sessions_app_operation" DROP COLUMN "waits_for", DROP COLUMN "reserved_bytes", DROP COLUMN "host_id"
"""
FIELDS = {
    "host_id": models.CharField(blank=True, db_default="", default="", max_length=64),
    "reserved_bytes": models.PositiveBigIntegerField(db_default=0, default=0),
    "waits_for": models.CharField(blank=True, db_default="", default="", max_length=40),
}


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0026_key_plans")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARDS, BACKWARDS)],
            state_operations=[migrations.AddField("operation", name, field) for name, field in FIELDS.items()],
        ),
    ]
