"""One function per mechanism: what stands in its place while it is switched off (tests/sabotage/switch.py)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: (where it is, its name there, what is called instead)
Swap = tuple[Any, str, Callable[..., Any]]


def resume_boots_afresh() -> list[Swap]:
    """A resume starts the image anew instead of loading the saved moment."""
    from workers.machine.qemu.driver import QemuDriver

    def boot_instead(self: Any, runtime: Path, spec: Any, image: Any, saved: Any, *, timeout_seconds: float) -> Any:
        return self.boot(runtime, spec, image, timeout_seconds=timeout_seconds)

    return [(QemuDriver, "resume", boot_instead)]


def resumes_the_first_checkpoint() -> list[Swap]:
    """A resume takes the session's oldest checkpoint, whichever was asked for: later saves count for nothing."""
    from checkpoints_app.models import Checkpoint
    from checkpoints_app.services import checkpoint as checkpoints

    def oldest(session: Any, checkpoint_id: str) -> Any:
        return Checkpoint.objects.select_related("pin").filter(session=session, state="published").order_by("created_at").first()

    return [(checkpoints, "restorable", oldest)]


def nobody_takes_up_lost_work() -> list[Swap]:
    """The sweep does not ring for work whose worker is gone."""
    from workers import sweep

    return [(sweep, "sweep", lambda: None)]


def messages_are_taken_up_by_every_turn() -> list[Swap]:
    """A turn of the webhooks sends what is due, whether or not another turn has taken it up."""
    from sessions_app.models import WebhookDelivery
    from sessions_app.services.webhooks import delivery

    def take_all() -> Any:
        for row in WebhookDelivery.objects.filter(state="pending").select_related("endpoint")[:4]:
            message = delivery._message(row)
            if message is not None:
                yield message

    return [(delivery, "_take_up", take_all)]


def cached_images_are_believed() -> list[Swap]:
    """A cached image is used without comparing it with the digest taken when it was assembled."""
    from workers.cache import files

    def believe(kind: str, name: str) -> Path | None:
        path = files.place(kind, name)
        return path if path.exists() else None

    return [(files, "lookup", believe)]


def pins_are_not_compared() -> list[Swap]:
    """A resume starts whatever the host has, without asking whether the checkpoint was taken on the same."""
    from workers.operations import waking

    return [(waking, "require_pin", lambda *_: None)]


def clones_are_left_as_they_were() -> list[Swap]:
    """A fork's child keeps its parent's identity, and each machine has the same vmgenid: the guest does not see that it is another one."""
    from workers.machine.qemu import argv, machine

    sound = argv._devices

    def with_one_vmgenid(*arguments: Any) -> list[str]:
        told = sound(*arguments)
        assert any('"guid": "auto"' in word for word in told)
        return [word.replace('"guid": "auto"', '"guid": "00000000-0000-0000-0000-000000000001"') for word in told]

    return [(argv, "_devices", with_one_vmgenid), (machine, "give_identity", lambda *_: None)]


def nothing_is_replayed() -> list[Swap]:
    """A resume opens no window: what its machine had asked already, it asks the provider again."""
    from gateway_app.services import window

    return [(window, "window", lambda *_: [])]


def provider_keys_come_back() -> list[Swap]:
    """A machine's answer bears the provider's key in a header."""
    from gateway_app.proxy import channel, headers

    shown: list[str] = []
    told, back = channel.key_header, headers.back

    def told_and_kept(provider: Any, secret: str, bearer: bool) -> tuple[str, str]:
        shown[:] = [secret]
        return told(provider, secret, bearer)

    return [(channel, "key_header", told_and_kept), (headers, "back", lambda pairs: [*back(pairs), *(("x-key", one) for one in shown)])]


def anybody_publishes() -> list[Swap]:
    """A save is published whoever owns its operation, whatever epoch its session is in; its worker does not ask whether it may go on."""
    from django.db import transaction

    from checkpoints_app.models import Checkpoint
    from checkpoints_app.services import publish
    from checkpoints_app.states import CheckpointState
    from sessions_app.models import Session
    from workers.operations import checkpoint as saving
    from workers.operations.keeper import Keeper

    def publish_anyway(work: Any, checkpoint: Any, saved: Any) -> None:
        with transaction.atomic():
            checkpoint.source_epoch = Session.objects.get(id=work.session.id).epoch
            Checkpoint.objects.filter(id=checkpoint.id).update(state=CheckpointState.UPLOADING, lease_token=work.lease.token)
            publish.publish(checkpoint, saved.stored, work.lease, source=work.source)

    return [(saving, "_publish", publish_anyway), (Keeper, "check", lambda _: None), (Keeper, "check_lease", lambda _: None)]


def older_epochs_run_on() -> list[Swap]:
    """A host does not end what it has of sessions that have gone on elsewhere."""
    from workers.operations import observe

    return [(observe, "sweep_leftovers", lambda: None)]


def older_epochs_may_call() -> list[Swap]:
    """The gateway lets a machine call whatever epoch its session is in. Such a machine is not ended either: it must have time to call."""
    from dataclasses import replace
    from unittest.mock import patch

    from gateway_app.proxy import call_rows, machines, standing
    from gateway_app.proxy.channel import Channel
    from sessions_app.states import SessionState
    from workers.gateway import doors

    asked, opened = standing.standing, call_rows.open_call

    async def runs_anyway(*arguments: Any) -> Any:
        found = await asked(*arguments)
        return None if found is None else replace(found, runs=True)

    async def opened_anyway(database: Any, channel: Any, *arguments: Any) -> bool:
        row = await (await database.execute("SELECT epoch FROM sessions_app_session WHERE id = %s", [channel.session_id])).fetchone()
        with patch.object(call_rows, "RUNS", [state.value for state in SessionState]):
            return await opened(database, replace(channel, epoch=row[0]), *arguments)

    async def known_anyway(database: Any, places: Any) -> Any:
        async with database.connection() as connection:
            rows = await (await connection.execute(machines._KNOWN, [sorted({name for name, _ in places}), machines.MOST_FORKS])).fetchall()
        found = {row[0]: (row[1], frozenset(row[3])) for row in rows}
        return {(name, epoch): Channel(found[name][0], name, epoch, found[name][1]) for name, epoch in places if name in found}

    async def yes(*_: Any) -> bool:
        return True

    return [
        (standing, "standing", runs_anyway),
        (standing, "runs", yes),
        (call_rows, "open_call", opened_anyway),
        (doors, "channels", known_anyway),
        *older_epochs_run_on(),
    ]


def moves_end_with_the_save() -> list[Swap]:
    """The save that stops a machine for a move is all of it: nobody asks for the resume, in its commit or later."""
    from workers.fleet import stranded
    from workers.operations import moving

    return [(moving, "go_on", lambda *_: None), (stranded, "bring_back", lambda: 0)]


def records_are_not_understood() -> list[Swap]:
    """What stands beside a machine of what it is was written by a release whose format is not read."""
    from workers.machine.qemu import driver

    return [(driver, "read_record", lambda *_: None)]


def attempts_end_with_the_connection() -> list[Swap]:
    """An operation that meets a closed connection to the database fails: it opens no other before a commit, and is not attempted again."""
    from sessions_app.services import lease
    from workers.operations import work

    return [(lease, "let_go", lambda *_: False), (work, "drop_broken_connection", lambda: None)]


def the_store_is_asked_once() -> list[Swap]:
    """A request to the S3 server that fails is not made again."""
    from checkpoints_app.services import storage

    sound = storage.backend

    def asked_once() -> Any:
        from dataclasses import replace

        from checkpoints_app.store.backends.s3 import Patience, S3Backend

        found = sound()
        assert isinstance(found, S3Backend)
        return S3Backend(replace(found.bucket, patience=Patience(attempts=1)), found.terms)

    return [(storage, "backend", asked_once)]


def a_silent_vm_worker_is_not_missed() -> list[Swap]:
    """A host takes work as long as any of its workers is heard of."""
    from django.db.models import Q

    from workers.host import liveness

    return [(liveness, "vm_is_silent", lambda: Q(id=""))]


MECHANISMS: Mapping[str, Callable[[], list[Swap]]] = {
    "resume_boots_afresh": resume_boots_afresh,
    "resumes_the_first_checkpoint": resumes_the_first_checkpoint,
    "nobody_takes_up_lost_work": nobody_takes_up_lost_work,
    "messages_are_taken_up_by_every_turn": messages_are_taken_up_by_every_turn,
    "cached_images_are_believed": cached_images_are_believed,
    "pins_are_not_compared": pins_are_not_compared,
    "clones_are_left_as_they_were": clones_are_left_as_they_were,
    "nothing_is_replayed": nothing_is_replayed,
    "provider_keys_come_back": provider_keys_come_back,
    "anybody_publishes": anybody_publishes,
    "older_epochs_run_on": older_epochs_run_on,
    "older_epochs_may_call": older_epochs_may_call,
    "moves_end_with_the_save": moves_end_with_the_save,
    "records_are_not_understood": records_are_not_understood,
    "attempts_end_with_the_connection": attempts_end_with_the_connection,
    "the_store_is_asked_once": the_store_is_asked_once,
    "a_silent_vm_worker_is_not_missed": a_silent_vm_worker_is_not_missed,
}
