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
}
