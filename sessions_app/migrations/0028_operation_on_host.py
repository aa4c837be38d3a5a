import sessions_app.states
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('sessions_app', '0027_placement'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(condition=models.Q(('state__in', [sessions_app.states.OperationState['QUEUED'], sessions_app.states.OperationState['RUNNING']]), models.Q(('host_id', ''), _negated=True)), fields=['host_id'], name='operation_on_host'),
        ),
    ]
