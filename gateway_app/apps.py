from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "gateway_app"
    label = "gateway_app"
    verbose_name = "Model gateway"

    def ready(self) -> None:
        from gateway_app.services import account_export, binding, budget_watch, call, erasure, fork, open_calls, process, usage, window
        from gateway_app.states import call_states
        from sessions_app.services import steps

        steps.state_tables.add(call_states)
        steps.watermarks.add(window.watermark)
        steps.epoch_begins.add(window.open_epoch)
        steps.forked.add(fork.pass_on)
        steps.bound_keys.fill(binding.of_sessions)
        steps.has_key.fill(binding.has_key)
        steps.model_use.fill(usage.of_session)
        steps.model_book.fill(usage.book)
        steps.account_model_use.fill(usage.of_account)
        steps.tell_model_use.fill(usage.tell)
        steps.price_book.fill(usage.price_book)
        steps.used_at.add(call.used_at)
        steps.lifecycle_turns.add(budget_watch.run_due)
        steps.lifecycle_turns.add(open_calls.end_silent)
        steps.chores.add(window.forget_old)
        steps.chores.add(process.forget_silent)
        steps.erase.add(erasure.erase_session)
        steps.erase_account.add(erasure.erase_account)
        steps.export_account.add(account_export.rows_of)
        steps.deletion_facts.add(erasure.deletion_facts)
