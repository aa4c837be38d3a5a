from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    label = "sessions_app"
    verbose_name = "Sessions"

    def ready(self) -> None:
        from sessions_app.services import account_export, reconcile, recorded, restore_scope, sample, session_erasure, steps, workspace

        steps.erase.add(recorded.erase_session)
        steps.erase.add(workspace.erase_session)
        steps.erase.add(session_erasure.erase)
        steps.erase_account.add(workspace.erase_account)
        steps.export_account.add(account_export.rows_of)
        steps.export_account.add(workspace.export_account)
        steps.gauges.add(sample.gauges)
        steps.reconcile.add(reconcile.reconcile)
        steps.later_work.add(restore_scope.history)
        steps.later_work.add(restore_scope.commands)
        steps.later_work.add(restore_scope.machine)
