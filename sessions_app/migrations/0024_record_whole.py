"""The service record is not emptied either."""

from django.db import migrations

RULE = """
CREATE TRIGGER sessions_app_record_rule_whole BEFORE TRUNCATE ON sessions_app_servicerecord
  FOR EACH STATEMENT EXECUTE FUNCTION sessions_app_record_rule()
"""
NO_RULE = "DROP TRIGGER sessions_app_record_rule_whole ON sessions_app_servicerecord"


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0023_quotas")]
    operations = [migrations.RunSQL(RULE, NO_RULE)]
