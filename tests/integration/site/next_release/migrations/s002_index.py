from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("workers", "s001_column")]
    operations = [AddIndexConcurrently("host", models.Index(fields=["rack"], name="host_rack"))]
