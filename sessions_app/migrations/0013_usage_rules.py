"""The service record is append-only by a rule of the database, and what exists already is counted from now on."""

from django.db import migrations

RULE = """
CREATE FUNCTION sessions_app_record_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('keepstate.record_sweep', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'the service record is append-only: % is refused', TG_OP USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER sessions_app_record_rule BEFORE UPDATE OR DELETE ON sessions_app_servicerecord
  FOR EACH ROW EXECUTE FUNCTION sessions_app_record_rule();
"""
NO_RULE = """
DROP TRIGGER sessions_app_record_rule ON sessions_app_servicerecord;
DROP FUNCTION sessions_app_record_rule();
"""
COUNT = """
INSERT INTO sessions_app_sessionusage (session_id, awake_ms, estimated_ms, awake_since, proved_at, partial, told_ms, told_estimated_ms)
SELECT id, 0, 0, alive, alive, true, 0, 0 FROM (
  SELECT id, CASE WHEN runtime_state IN ('running', 'checkpointing', 'stopping') THEN statement_timestamp() END AS alive
  FROM sessions_app_session WHERE epoch > 0 AND runtime_state <> 'deleted'
) AS known;
INSERT INTO sessions_app_accountusage (account_id, awake_ms, estimated_ms, changed_at)
SELECT id, 0, 0, statement_timestamp() FROM sessions_app_account;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0012_usage")]
    operations = [migrations.RunSQL(RULE, NO_RULE), migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
