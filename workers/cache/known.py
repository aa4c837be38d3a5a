"""What the fleet is told of this host's cache, so that work is placed where least has to be fetched (workers/host/choice.py).

Told at once after a save and a resume, and compared at each observation with what lies here. Only ever a hint.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db import DatabaseError
from django.db.models.functions import Now

from checkpoints_app.models import PackEdge
from checkpoints_app.states import CheckpointState
from checkpoints_app.store import Kind, object_key
from sessions_app.services.database import drop_broken_connection
from workers.cache import files, store
from workers.cache.caching import CachingBackend
from workers.cache.evict import images
from workers.host.identity import host_id, images_directory
from workers.models import CachedImage
from workers.states import Heat

log = logging.getLogger(__name__)

#: So many images of a host are told of, those used last.
MOST = 2000
#: Packs leave a host without a word; so often those of an image that is not assembled any more are looked for.
WARM_SECONDS = 60
_WARM_AT_ONCE = 100


def tell(memory_root: str) -> None:
    """That this host has the image assembled. Never raises: what is not told is found at the next observation."""
    try:
        _write({memory_root: Heat.HOT})
    except DatabaseError:
        drop_broken_connection()
        log.warning("what is in the cache could not be told", extra={"image": memory_root}, exc_info=True)


def compare() -> int:
    """Tell what came and what went since it was told; returns how many. One query where nothing has changed."""
    here = _here()
    told = {root: Heat(heat) for root, heat in CachedImage.objects.filter(host=host_id()).values_list("root", "heat")}
    new = {root: heat for root, heat in here.items() if told.get(root) != heat}
    if new:
        _write(new)
    cooled = [root for root, heat in told.items() if root not in here and heat != Heat.WARM]
    return len(new) + _cool(cooled) + (_look_after_warm() if Heat.WARM in told.values() else 0)


def _here() -> dict[str, Heat]:
    newest = sorted(images(files.MEMORY), key=lambda image: image.used_at, reverse=True)[:MOST]
    guests = [path.parent.name for path in images_directory().glob("*/image.json")][:MOST]
    return {**{image.path.name: Heat.HOT for image in newest}, **dict.fromkeys(guests, Heat.IMAGE)}


def _write(rows: Mapping[str, Heat]) -> None:
    made = [CachedImage(host_id=host_id(), root=root, heat=heat, seen_at=Now()) for root, heat in rows.items()]
    CachedImage.objects.bulk_create(made, update_conflicts=True, unique_fields=["root", "host"], update_fields=["heat", "seen_at"])


def _cool(roots: list[str]) -> int:
    """These are not assembled here any more: warm where their packs are, else nothing."""
    if roots:
        warm = _whose_packs_are_here(roots)
        mine = CachedImage.objects.filter(host=host_id())
        mine.filter(root__in=warm).update(heat=Heat.WARM, seen_at=Now())
        mine.filter(root__in=set(roots) - warm).delete()
    return len(roots)


def _look_after_warm() -> int:
    """Those that were looked at longest ago, a few at a time."""
    warm = CachedImage.objects.filter(host=host_id(), heat=Heat.WARM, seen_at__lt=Now() - timedelta(seconds=WARM_SECONDS))
    return _cool(list(warm.order_by("seen_at").values_list("root", flat=True)[:_WARM_AT_ONCE]))


def _whose_packs_are_here(roots: Iterable[str]) -> set[str]:
    """Nothing for a store on this host: there every host is as warm as the other."""
    backend = store.backend()
    if not isinstance(backend, CachingBackend):
        return set()
    named = PackEdge.objects.filter(checkpoint__memory_root__in=list(roots), checkpoint__state=CheckpointState.PUBLISHED)
    rows = named.values_list("checkpoint__memory_root", "pack__account_id", "pack_id", "pack__generation").distinct()
    found: dict[str, bool] = {}
    for root, account_id, pack_id, generation in rows:
        found[root] = found.get(root, True) and backend.cache.holds(object_key(account_id, Kind.PACK, pack_id, generation))
    return {root for root, whole in found.items() if whole}
