"""Celery's side: adapters, and nothing else."""

from celery import shared_task

from sessions_app.services.dispatch import (
    ACCOUNTS,
    FLEET,
    HOUSEKEEPING,
    LIFECYCLE,
    OBSERVE_HOST,
    RECORD,
    RETENTION,
    RUN_OPERATION,
    SAMPLES,
    STORE_ORPHANS,
    STORE_UPKEEP,
    SWEEP,
    USAGE,
    WEBHOOKS,
)


@shared_task(name=RUN_OPERATION)
def run_operation(operation_id: str) -> None:
    from workers.operations.run import run

    run(operation_id)


@shared_task(name=OBSERVE_HOST)
def observe_host() -> None:
    from workers.operations.observe import observe

    observe()


@shared_task(name=SWEEP)
def sweep() -> None:
    from workers import sweep as sweeping
    from workers import turns

    turns.take("sweep", sweeping.run)


@shared_task(name=FLEET)
def fleet() -> None:
    from workers import turns
    from workers.fleet import turn

    turns.take("fleet", turn.take)


@shared_task(name=LIFECYCLE)
def lifecycle() -> None:
    from sessions_app.services import policies
    from workers import turns

    turns.take("lifecycle", policies.run_due)


@shared_task(name=STORE_UPKEEP)
def store_upkeep() -> None:
    from checkpoints_app.services import upkeep
    from workers import turns

    turns.take("store_upkeep", upkeep.every_minute)


@shared_task(name=STORE_ORPHANS)
def store_orphans() -> None:
    from checkpoints_app.services import upkeep
    from workers import turns

    turns.take("store_orphans", upkeep.look_for_orphans)


@shared_task(name=WEBHOOKS)
def webhooks() -> None:
    from sessions_app.services.webhooks import delivery
    from workers import turns

    turns.take("webhooks", delivery.run_turn)


@shared_task(name=HOUSEKEEPING)
def housekeeping() -> None:
    from sessions_app.services import housekeeping as keeping
    from workers import turns

    turns.take("housekeeping", keeping.run)


@shared_task(name=USAGE)
def usage() -> None:
    from sessions_app.services import roll_up
    from workers import turns

    turns.take("usage", roll_up.run_turn)


@shared_task(name=RECORD)
def record() -> None:
    from sessions_app.services import record as records
    from workers import turns

    turns.take("record", records.sweep)


@shared_task(name=SAMPLES)
def samples() -> None:
    from sessions_app.services import sample
    from workers import turns

    turns.take("samples", sample.take)


@shared_task(name=RETENTION)
def retention() -> None:
    from checkpoints_app.services import retention as retaining
    from workers import turns

    turns.take("retention", retaining.run_turn)


@shared_task(name=ACCOUNTS)
def accounts() -> None:
    from sessions_app.services import account_run
    from workers import turns

    turns.take("accounts", account_run.run_due)
