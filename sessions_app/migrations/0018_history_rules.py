"""The history is append-only, and the database says so: see `sessions_app/services/event.py`."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION sessions_app_history_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT 1 FROM sessions_app_session WHERE id = OLD.session_id AND runtime_state IN ('deleting', 'deleted')) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the history of a session is append-only: % is refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
ROWS = """
CREATE TRIGGER history_is_kept BEFORE UPDATE OR DELETE ON sessions_app_sessionevent
FOR EACH ROW EXECUTE FUNCTION sessions_app_history_is_kept()
"""
TABLE = """
CREATE TRIGGER history_is_kept_whole BEFORE TRUNCATE ON sessions_app_sessionevent
FOR EACH STATEMENT EXECUTE FUNCTION sessions_app_history_is_kept()
"""
UNDO = """
DROP TRIGGER history_is_kept_whole ON sessions_app_sessionevent;
DROP TRIGGER history_is_kept ON sessions_app_sessionevent;
DROP FUNCTION sessions_app_history_is_kept()
"""
# what forks that are older than these columns have only told their history
FORKS = """
UPDATE sessions_app_session AS child
SET fork_checkpoint_id = coalesce(told.payload ->> 'checkpoint_id', ''), fork_watermark = (told.payload ->> 'parent_events')::bigint
FROM sessions_app_sessionevent AS told
WHERE told.session_id = child.id AND told.number = 1 AND told.type = 'session.forked' AND child.parent_id <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0017_history")]

    operations = [
        migrations.RunSQL(FORKS, migrations.RunSQL.noop),
        migrations.RunSQL([FUNCTION, ROWS, TABLE], UNDO),
    ]
