"""The database, the broker and the store that this stack uses: embedded, or the real ones that the environment names."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keepstate_site.stack import home, keys, leftovers, lock, postgres, redis_server
from keepstate_site.stack.child import Spec
from keepstate_site.stack.home import Home
from keepstate_site.stack.paths import Paths, prepare
from keepstate_site.stack.supervisor import Supervisor


@dataclass(frozen=True)
class Services:
    paths: Paths
    home: Home | None  # None where both servers are external
    lasting: bool = True  # False: the database's data may be lost with the machine's power
    hosts: int = 1  # that this stack runs, and that share the machine's memory
    fake_provider: str = ""  # its address, where this stack runs one: it is every provider then

    def specs(self) -> list[Spec]:
        """What must be started. Creates directories and the database the first time."""
        if self.home is None:
            return []
        home.make(self.home, self.paths)
        wanted = [] if os.environ.get("DATABASE_URL") else [postgres.spec(self.home, lasting=self.lasting)]
        return wanted if os.environ.get("REDIS_URL") else [*wanted, redis_server.spec(self.home)]

    def environment(self) -> dict[str, str]:
        """What every process of the stack is started with. Secrets stay in their files: an environment can be read from outside."""
        values = {
            "KEEPSTATE_VAR": str(self.paths.root),
            "KEEPSTATE_IMAGES": str(self.paths.images),
            "CHECKPOINT_STORE_URL": (self.paths.root / "store").as_uri(),
            "DJANGO_SETTINGS_MODULE": "keepstate_site.settings",
            "PYTHONUNBUFFERED": "1",
            "KEEPSTATE_HOST_SHARE": str(max(self.hosts, 1)),
        }
        if self.home:
            values |= {"DATABASE_URL": self.home.database_url, "REDIS_URL": self.home.redis_url}
        given = {name: value for name, value in os.environ.items() if value}
        fake = {f"KEEPSTATE_{name}_URL": self.fake_provider for name in ("ANTHROPIC", "OPENAI", "GEMINI") if self.fake_provider}
        return {**values, **given, **fake, "KEEPSTATE_VAR": str(self.paths.root)}


def find(root: Path, *, lasting: bool = True) -> Services:
    """Creates the root where it is missing, and its keys unless its servers are a fleet's: those have keys of their own. Starts nothing."""
    paths = prepare(root)
    external = os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")
    if not external:
        keys.ensure(paths)
    return Services(paths, None if external else home.locate(paths, home.service_user()), lasting)


@contextmanager
def started(
    root: Path, purpose: str, say: Callable[[str], None], *, echo: bool = False, lasting: bool = True
) -> Iterator[tuple[Supervisor, Services]]:
    """Hold the root's lock, start what is embedded, and stop everything that the supervisor runs at the end, whatever happens."""
    found = find(root, lasting=lasting)
    supervisor = Supervisor(found.paths.logs, say, echo=echo)
    with lock.exclusive(found.paths, purpose):
        if found.home:
            leftovers.clear(found.home, say)
        supervisor.catch_signals()
        try:
            for spec in found.specs():
                supervisor.start([spec])
            yield supervisor, found
        finally:
            supervisor.stop()


def role(environment: Mapping[str, str], name: str) -> dict[str, str]:
    return {**environment, "KEEPSTATE_ROLE": name}
