"""Ticks order calls across everything without a clock, and without a row that every call would have to lock."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("gateway_app", "0001_calls")]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE gateway_app_tick", "DROP SEQUENCE gateway_app_tick"),
    ]
