"""The parts of the dashboard: each reads its figures and draws them."""

from keepstate_site.console_pages.panels import charts, now, tables
from keepstate_site.console_pages.panels.panel import Panel

_SESSIONS, _OPERATIONS = "sessions_app.view_session", "sessions_app.view_operation"
_ACCOUNTS = "sessions_app.view_account"
_CHECKPOINTS, _HOSTS, _SWEEPS = "checkpoints_app.view_checkpoint", "workers.view_host", "checkpoints_app.view_sweep"

#: In the order of the page. A panel appears for who may see what it tells of.
PANELS = [
    Panel("now", "Now", (_SESSIONS, _OPERATIONS, _CHECKPOINTS, _HOSTS, _SWEEPS), now.draw, wide=True),
    Panel("stuck", "Stuck operations", (_OPERATIONS,), tables.stuck, wide=True),
    Panel("failed", "Failed in the last 24 hours", (_OPERATIONS,), tables.failed, wide=True),
    Panel("machines", "Running machines", (_SESSIONS,), charts.machines),
    Panel("saves", "Saves", (_OPERATIONS,), charts.saves),
    Panel("resumes", "Resume times", (_OPERATIONS,), charts.resumes),
    Panel("stored", "Stored bytes", (_CHECKPOINTS,), charts.stored),
    Panel("hosts", "Hosts", (_HOSTS,), tables.hosts),
    Panel("quotas", "Accounts near their quota", (_ACCOUNTS,), tables.quotas_panel),
    Panel("sweeps", "Recurring work", (_SWEEPS,), tables.sweeps_panel),
]

__all__ = ["PANELS", "Panel"]
