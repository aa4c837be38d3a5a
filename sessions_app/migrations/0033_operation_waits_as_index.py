import sessions_app.states
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('sessions_app', '0032_operation_waits_as'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(condition=models.Q(('state', sessions_app.states.OperationState['QUEUED']), models.Q(('waits_for', ''), _negated=True)), fields=['waits_as', 'accepted_at', 'id'], name='operation_waits_as'),
        ),
    ]
