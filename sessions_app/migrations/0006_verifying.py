from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0005_fork")]

    operations = [
        migrations.AddField(model_name="session", name="verifying", field=models.BooleanField(default=False)),
    ]
