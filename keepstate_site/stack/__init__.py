"""The embedded stack: private PostgreSQL and Redis on unix sockets, web, workers and beat, under one supervisor.

    python -m keepstate_site.stack up|services|run|manage|test|credentials|doctor

`running()` starts a whole stack as a subprocess for the demo, the benches and integration tests. Nothing in this package
imports Django, so that `doctor` and the start itself work before settings do.
"""

from keepstate_site.stack.client import RunningStack, running

__all__ = ["RunningStack", "running"]
