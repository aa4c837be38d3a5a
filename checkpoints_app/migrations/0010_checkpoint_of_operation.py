from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('checkpoints_app', '0009_watermarks'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='checkpoint',
            index=models.Index(fields=['operation_id'], name='checkpoint_of_operation'),
        ),
    ]
