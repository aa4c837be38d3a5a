"""Guest images as rows: which there are, and which a new session gets."""

from typing import Any

from checkpoints_app.models import Image
from sessions_app.errors import Invalid
from sessions_app.models import Account
from sessions_app.services.steps import ImageChoice

DEFAULT_IMAGE = "debian-python"


def register(*, digest: str, name: str, architecture: str, default_memory_bytes: int, disk_bytes: int, facts: dict[str, Any]) -> Image:
    """Record an image that a host has. A digest that is known keeps its row."""
    image, _ = Image.objects.get_or_create(
        digest=digest,
        defaults={
            "name": name,
            "architecture": architecture,
            "default_memory_bytes": default_memory_bytes,
            "disk_bytes": disk_bytes,
            "facts": facts,
        },
    )
    return image


def resolve(account: Account, name: str | None) -> ImageChoice:
    """The newest image of that name. Images are public, so the account does not matter yet."""
    image = Image.objects.filter(name=name or DEFAULT_IMAGE).order_by("-registered_at").first()
    if image is None:
        known = sorted(set(Image.objects.values_list("name", flat=True)))
        raise Invalid(
            f"There is no image {name or DEFAULT_IMAGE!r}. No session was started.",
            next_action=f"Name one of: {', '.join(known) or 'none is registered; ./keepstate up registers them'}.",
            code="ks_unknown_image",
        )
    return ImageChoice(image.name, image.digest, image.architecture, image.default_memory_bytes)
