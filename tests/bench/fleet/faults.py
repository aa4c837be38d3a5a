"""The table of faults, and when each of them comes."""

import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.fleet.unwilling import unwilling
from tests.gates.fleet import processes
from tests.gates.fleet.host import HostProcess
from tests.gates.fleet.room import FleetRoom
from tests.support.seaweed import S3Server


@dataclass(frozen=True)
class Fault:
    """Entered when it begins and left when it ends, both on the main thread. `lasts`: seconds, from and to. `of_host`: it is given a host's
    id, and until it has ended no other comes to that host; else "". `of_store`: it is not started again meanwhile, should it have ended.
    """

    during: Callable[[FleetRoom, str], AbstractContextManager[None]]
    lasts: tuple[float, float] = (0, 0)
    of_host: bool = False
    of_store: bool = False


def _host(begin: Callable[[HostProcess], object], end: Callable[[HostProcess], object] = lambda _: None) -> Callable[..., Any]:
    return _both(lambda fleet, host: begin(fleet.hosts[host]), lambda fleet, host: end(fleet.hosts[host]))


def _front(begin: Callable[[FleetRoom], object], end: Callable[[FleetRoom], object] = lambda _: None) -> Callable[..., Any]:
    return _both(lambda fleet, _: begin(fleet), lambda fleet, _: end(fleet))


def _both(begin: Callable[[FleetRoom, str], object], end: Callable[[FleetRoom, str], object]) -> Callable[..., Any]:
    @contextmanager
    def during(fleet: FleetRoom, host: str) -> Iterator[None]:
        begin(fleet, host)
        try:
            yield
        finally:
            end(fleet, host)

    return during


def _all_workers(host: HostProcess) -> None:
    before = [*host.worker_pids("vm"), *host.worker_pids("io"), *host.gateway_pids()]
    processes.kill_all(lambda: [pid for pid in host.pids() if pid in before])


def _machines(host: HostProcess) -> None:
    processes.send(host.machine_pids(), signal.SIGKILL)


def _s3(fleet: FleetRoom) -> S3Server:
    assert fleet.s3 is not None
    return fleet.s3


def _store(number: signal.Signals) -> Callable[[FleetRoom], None]:
    return lambda fleet: _s3(fleet).process.send_signal(number)


#: A host that was killed is started again half a minute later; one that is paused is continued when it was given up long ago. A store that
#: was killed answers some four seconds after its start.
FAULTS: Mapping[str, Fault] = {
    "vm worker killed": Fault(_host(lambda host: host.kill_workers("vm")), of_host=True),
    "io worker killed": Fault(_host(lambda host: host.kill_workers("io")), of_host=True),
    "all workers of a host killed": Fault(_host(_all_workers), of_host=True),
    "gateway killed": Fault(_host(HostProcess.kill_gateway), of_host=True),
    "all machines of a host killed": Fault(_host(_machines), of_host=True),
    "host killed": Fault(_host(HostProcess.kill, lambda host: host.start(wait=False)), (28, 32), of_host=True),
    "host paused": Fault(_host(HostProcess.pause, HostProcess.resume), (18, 24), of_host=True),
    "control worker killed": Fault(_front(lambda fleet: fleet.control.kill())),
    "web killed": Fault(_front(lambda fleet: fleet.web.kill())),
    "beat gone": Fault(_front(lambda fleet: fleet.beat.pause(), lambda fleet: fleet.beat.resume()), (15, 20)),
    "beat doubled": Fault(lambda fleet, _: fleet.second_beat(), (15, 20)),
    "redis flushed": Fault(_front(lambda fleet: fleet.redis.flush())),
    "redis restarted": Fault(_front(lambda fleet: fleet.redis.restart())),
    "redis gone": Fault(_front(lambda fleet: fleet.redis.kill(), lambda fleet: fleet.redis.start()), (8, 15)),
    "redis silent": Fault(_front(lambda fleet: fleet.redis.pause(), lambda fleet: fleet.redis.resume()), (8, 15)),
    "postgres restarted": Fault(_front(lambda fleet: fleet.postgres.restart())),
    "postgres killed": Fault(_front(lambda fleet: fleet.postgres.kill(), lambda fleet: fleet.postgres.start()), (1, 4)),
    "connections cut": Fault(_front(lambda fleet: fleet.postgres.cut_connections())),
    "store silent": Fault(_front(_store(signal.SIGSTOP), _store(signal.SIGCONT)), (8, 15), of_store=True),
    "store refuses connections": Fault(
        _front(lambda fleet: _s3(fleet).kill(), lambda fleet: _s3(fleet).start(wait=False)), (3, 8), of_store=True
    ),
    "store answers 503": Fault(lambda fleet, _: unwilling(_s3(fleet)), (8, 15), of_store=True),
}


@dataclass(frozen=True)
class Planned:
    """One fault of a schedule: seconds since its start."""

    number: int
    kind: str
    host: str
    begins: float
    ends: float

    def words(self) -> dict[str, Any]:
        return asdict(self)


def plan(seed: int, seconds: float, every: float, hosts: Sequence[str], kinds: Sequence[str] = tuple(FAULTS)) -> list[Planned]:
    """The same for the same arguments. Every kind comes once before any comes again. A host that is away is not hit meanwhile, and no more
    than one is away at a time.
    """
    chance = random.Random(f"faults {seed}")
    planned: list[Planned] = []
    waiting: list[str] = []
    at = every
    while at < seconds:
        waiting = waiting or chance.sample(kinds, len(kinds))
        away = {one.host for one in planned if one.host and one.ends > at}
        kind = next((kind for kind in waiting if not (away and FAULTS[kind].of_host and FAULTS[kind].lasts[1])), None)
        if kind is None:  # what is left would take a second host away: it waits until the first is back
            at += every
            continue
        waiting.remove(kind)
        host = chance.choice([one for one in hosts if one not in away]) if FAULTS[kind].of_host else ""
        planned.append(Planned(len(planned), kind, host, round(at, 1), round(at + chance.uniform(*FAULTS[kind].lasts), 1)))
        at += every
    return planned
