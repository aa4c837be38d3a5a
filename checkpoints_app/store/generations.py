"""Which generation of a pack to read: told by the caller (the database knows), or found by listing where there is no one to ask."""

from collections.abc import Callable, Mapping, Sequence

from .backends.backend import Backend
from .names import account_prefix, parse_key

#: Pack ids to the generation that each has now; a pack that is left out is read at its first.
Generations = Callable[[Sequence[str]], Mapping[str, int]]

#: So often a reader follows a pack that moves on while it reads; more means that something else is wrong.
MOVES = 8


def listed_generations(backend: Backend, account_id: str) -> Generations:
    """The highest generation that is there. Each call lists all packs of the account: for the store without its database.

    Any generation that was written holds every unit that is needed, so an older one beside it does no harm.
    """

    def newest(pack_ids: Sequence[str]) -> dict[str, int]:
        wanted, found = set(pack_ids), dict[str, int]()
        for listed in backend.list(f"{account_prefix(account_id)}packs/"):
            name = parse_key(listed.key)
            if name is not None and name.object_id in wanted:
                found[name.object_id] = max(name.generation, found.get(name.object_id, 0))
        return found

    return newest
