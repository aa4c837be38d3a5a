from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0031_operation_resume_failed'),
    ]

    operations = [
        migrations.AddField(
            model_name='operation',
            name='waits_as',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
    ]
