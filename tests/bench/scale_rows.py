"""Synthetic rows of one account for the bench of cost against scale, made by the database itself: as many packs as asked for.

Each session has 20 packs and 2 checkpoints that need all of them, each with a manifest of its own; the second's builds on the first's.
"""

from django.db import connection

ACCOUNT, PIN, IMAGE = "acct_scale", "1" * 64, "2" * 64
PACKS_PER_SESSION = 20
UNITS = "'\\x000010'::bytea"  # all of 4096 (checkpoints_app/store/bitmap.py)

_ROWS = """
INSERT INTO sessions_app_session (id, account_id, name, runtime_state, epoch, revision, image_name, image_digest, architecture,
    memory_bytes, cpus, budget_tokens, host_id, pin_digest, parent_id, head_checkpoint_id, park_reason, event_count)
SELECT session_id(n), %(account)s, '', 'parked', 1, 1, 'tiny', %(image)s, 'x86_64', 2147483648, 1, 1000, '', %(pin)s, '',
    checkpoint_id(n, 1), 'requested', 0
FROM generate_series(%(first)s, %(last)s) n;

INSERT INTO checkpoints_app_manifest (id, account_id, state, stored_bytes)
SELECT manifest_id(n, k), %(account)s, 'live', 20000 FROM generate_series(%(first)s, %(last)s) n, generate_series(0, 1) k;

INSERT INTO checkpoints_app_checkpoint (id, account_id, session_id, parent_id, state, operation_id, lease_token, pin_id, image_digest,
    source_epoch, reason, boundary, event_watermark, manifest_id, content_digest, memory_root, disk_root, published_at)
SELECT checkpoint_id(n, k), %(account)s, session_id(n), CASE k WHEN 1 THEN checkpoint_id(n, 0) END, 'published', 'op', 1, %(pin)s,
    %(image)s, 1, '', 'stop', 0, manifest_id(n, k), pack_id(n), pack_id(n), '', now()
FROM generate_series(%(first)s, %(last)s) n, generate_series(0, 1) k;

INSERT INTO checkpoints_app_pack (id, account_id, state, generation, reserved_generation, cleared_generation, stored_bytes,
    unit_count, units, bad)
SELECT pack_id(p), %(account)s, 'live', 0, 0, 0, 6000000, 4096, {units}, ''
FROM generate_series(%(first)s::bigint * {per}, %(last)s::bigint * {per} + {per} - 1) p;

INSERT INTO checkpoints_app_packedge (checkpoint_id, pack_id, units)
SELECT checkpoint_id(n, k), pack_id(n::bigint * {per} + p), {units}
FROM generate_series(%(first)s, %(last)s) n, generate_series(0, 1) k, generate_series(0, {per} - 1) p;

INSERT INTO checkpoints_app_manifestedge (checkpoint_id, manifest_id)
SELECT checkpoint_id(n, k), manifest_id(n, m)
FROM generate_series(%(first)s, %(last)s) n, generate_series(0, 1) k, generate_series(0, k) m;
"""

_NAMES = """
CREATE OR REPLACE FUNCTION pack_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(('pack' || n)::bytea), 'hex') $$;
CREATE OR REPLACE FUNCTION manifest_id(n bigint, k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(('manifest' || n || '.' || k)::bytea), 'hex') $$;
CREATE OR REPLACE FUNCTION checkpoint_id(n bigint, k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'ck_' || left(md5('checkpoint' || n || '.' || k), 24) $$;
CREATE OR REPLACE FUNCTION session_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT md5('session' || n) $$;
"""


def grow(first: int, last: int) -> None:
    """Sessions first to last with their rows, then fresh statistics. Foreign keys are not checked meanwhile: the rows fit."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES)
        cursor.execute("SET session_replication_role = replica")
        parameters: dict[str, str | int] = {"account": ACCOUNT, "pin": PIN, "image": IMAGE, "first": first, "last": last}
        for statement in _ROWS.format(units=UNITS, per=PACKS_PER_SESSION).split(";\n"):
            if statement.strip():
                cursor.execute(statement, parameters)
        cursor.execute("RESET session_replication_role")
        cursor.execute("VACUUM ANALYZE")


def session_ids(numbers: list[int]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT session_id(n) FROM unnest(%s::bigint[]) n", [numbers])
        return [str(one) for (one,) in cursor.fetchall()]
