from django.db import migrations


class Migration(migrations.Migration):
    """Fencing tokens come from one sequence, so that a later claim always has a larger one."""

    dependencies = [("sessions_app", "0001_initial")]
    operations = [
        migrations.RunSQL("CREATE SEQUENCE sessions_app_lease_token AS bigint", "DROP SEQUENCE sessions_app_lease_token"),
    ]
