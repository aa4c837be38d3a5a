from django.db import migrations, models

from tests.integration.site.next_release.migrations import NEWEST


class Migration(migrations.Migration):
    dependencies = [("workers", NEWEST)]
    operations = [migrations.AddField("host", "rack", models.CharField(max_length=40, default="", db_default=""))]
