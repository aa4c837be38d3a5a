"""What an export says of its machine, held against what this installation knows and allows, before a byte of it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints_app.models import Image
from checkpoints_app.services import pin
from checkpoints_app.store.export_frames import ExportHead
from sessions_app.errors import Invalid
from sessions_app.services import arrival
from sessions_app.services.steps import ImageChoice

MAX_DEVICE_BYTES = 64 << 20
MAX_PIN_FACTS = 64
_NOTHING = "Nothing was imported."


@dataclass(frozen=True)
class Described:
    checkpoint_id: str  # as it was called where it was exported
    image: ImageChoice
    pin_digest: str
    pin_facts: Mapping[str, str]
    memory_bytes: int
    cpus: int


def describe(head: ExportHead) -> Described:
    """Raises Invalid, naming the image that is missing or the fact that does not fit."""
    facts = head.facts
    machine, pin_facts = facts.get("machine"), _texts(facts.get("pin_facts"))
    if not isinstance(machine, Mapping) or not pin_facts or pin.digest(pin_facts) != facts.get("pin"):
        raise Invalid(f"The export does not say what its machine is, or its pin is not the digest of its pin's facts. {_NOTHING}")
    image = _image(facts.get("image"), machine.get("architecture"))
    memory_bytes, cpus = arrival.require_machine(machine.get("memory_bytes"), machine.get("cpus"))
    _require_images(head, image, memory_bytes)
    choice = ImageChoice(image.name, image.digest, image.architecture, image.default_memory_bytes)
    return Described(str(facts.get("checkpoint", ""))[:40], choice, facts["pin"], pin_facts, memory_bytes, cpus)


def _texts(value: Any) -> Mapping[str, str]:
    """The value, if it is texts by name; else nothing."""
    fits = isinstance(value, Mapping) and len(value) <= MAX_PIN_FACTS and all(isinstance(one, str) for one in value.values())
    return value if fits else {}


def _image(digest: Any, architecture: Any) -> Image:
    image = Image.objects.filter(digest=digest).first() if isinstance(digest, str) else None
    if image is None:
        raise Invalid(
            f"The export's machine runs the image {str(digest)[:64]}, which is not known here. {_NOTHING}",
            next_action="Bring the image here and register it (manage.py register_images), then import again.",
            code="ks_unknown_image",
        )
    if image.architecture != architecture:
        raise Invalid(f"The export's machine is {str(architecture)[:16]!r}, its image {image.architecture}. {_NOTHING}")
    return image


def _require_images(head: ExportHead, image: Image, memory_bytes: int) -> None:
    """Lengths are the machine's and the image's: they decide how much memory and disk the import takes."""
    lengths = {one.name: one.length_bytes for one in head.images}
    bases = {one.name: one.base for one in head.images}
    expected = {"memory": memory_bytes, **({"disk": image.disk_bytes} if image.disk_bytes else {})}
    expected_bases = {"memory": None, "devices": None, **({"disk": f"image {image.digest}"} if image.disk_bytes else {})}
    devices = lengths.pop("devices", 0)
    if lengths != expected or bases != expected_bases or not 0 < devices <= MAX_DEVICE_BYTES:
        raise Invalid(f"The export's memory, disk and device state are not those of its machine and image. {_NOTHING}")
