import sessions_app.states
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('sessions_app', '0030_recovery_policy'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(condition=models.Q(('kind', sessions_app.states.OperationKind['RESUME']), ('state', sessions_app.states.OperationState['FAILED'])), fields=['finished_at'], name='operation_resume_failed'),
        ),
    ]
