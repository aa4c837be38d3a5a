"""Which queries would read a whole table that grows: by PostgreSQL's own plans, whatever few rows a test has."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import connection

_PLANNED = ("SELECT", "UPDATE", "DELETE")
#: The planner multiplies how full the pages were by the pages that there are now, and those of tests that were rolled back are there too.
_A_MILLION = """
UPDATE pg_class SET reltuples = 1e6, relpages = greatest(1, pg_relation_size(oid) / current_setting('block_size')::int)
WHERE relname = ANY(%(tables)s) AND relkind = 'r'
"""
#: What was gathered of the few rows of a test says nothing of many.
_NOTHING_KNOWN = "DELETE FROM pg_statistic USING pg_class WHERE starelid = pg_class.oid AND relname = ANY(%(tables)s)"


def reads_whole(statements: Iterable[str], growing: frozenset[str], small: frozenset[str]) -> dict[str, str]:
    """Of those statements that would: the statement by the table and what it looks for.

    Prerequisites: a superuser; a transaction that is rolled back, for the planner is told in it that the tables have a million rows.

    Rows are found by a condition on an index. An index that is read from end to end with a filter finds them no faster than the table
    does, but for the `small` ones, whose own condition leaves few rows at any time.
    """
    found = dict[str, str]()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(_A_MILLION, {"tables": list(growing)})
        cursor.execute(_NOTHING_KNOWN, {"tables": list(growing)})
        for statement in statements:
            if statement.lstrip().upper().startswith(_PLANNED):
                cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
                ((answer,),) = cursor.fetchall()
                plans = json.loads(answer) if isinstance(answer, str) else answer
                for node in _nodes(plans[0]["Plan"]):
                    if node.get("Relation Name") in growing and _is_whole(node, small):
                        found[f"{node['Relation Name']}: {node.get('Filter', 'everything')}"] = statement
    return found


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _is_whole(node: Mapping[str, Any], small: frozenset[str]) -> bool:
    """Read in the order of an index and without a filter, only so many rows are read as are wanted."""
    match node["Node Type"]:
        case "Seq Scan":
            return True
        case "Index Scan" | "Index Only Scan":
            return "Index Cond" not in node and "Filter" in node and node["Index Name"] not in small
    return False
