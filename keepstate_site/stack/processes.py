"""The processes of a stack, as data: what each runs, when it counts as ready, how long it may take to stop."""

import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from keepstate_site.stack.child import Spec
from keepstate_site.stack.errors import REFUSED
from keepstate_site.stack.paths import PROJECT
from keepstate_site.stack.services import Services, role

# Each is `manage.py run_worker NAME`: pool, slots and queues belong to the workers' own code, which knows its host and pins.
HOST_WORKERS = ("vm", "io")
WORKER_STOP_SECONDS = 50  # a warm stop lets a save finish; what is killed later is taken up again by lease
GATEWAY_DRAIN_SECONDS = 50  # in a stack that stops there is no successor: calls that last longer end as unknown
READY_SECONDS = 90
PROBE_SECONDS = 5


def host(services: Services, host_id: str) -> list[Spec]:
    """The worker set of one host.

    The gateway ends with the workers: what it has begun it reads to its end for as long as a save may take.
    """
    gateway = ["manage.py", "run_gateway", "--drain-seconds", str(GATEWAY_DRAIN_SECONDS)]
    return [
        *(_worker(services, kind, host_id) for kind in HOST_WORKERS),
        _python(services, "gateway", gateway, host_id, stop=GATEWAY_DRAIN_SECONDS + 10),
    ]


def control(services: Services, host_id: str = "") -> Spec:
    """The sweeps of the whole fleet. Several beside each other do no harm."""
    return _worker(services, "control", host_id)


def _worker(services: Services, kind: str, host_id: str) -> Spec:
    return _python(services, f"worker-{kind}", ["manage.py", "run_worker", kind], host_id, stop=WORKER_STOP_SECONDS)


def fake_provider(services: Services, listener: socket.socket) -> Spec:
    return Spec(
        name="fake-provider",
        argv=[sys.executable, "-m", "keepstate_site.provider", "--fd", str(listener.fileno())],
        ready=partial(_answers, f"{url(listener)}/fake/bill"),
        env=services.environment(),
        cwd=PROJECT,
        ready_seconds=READY_SECONDS,
        stop_seconds=5,
        inherits=(listener,),
    )


def beat(services: Services, host_id: str = "") -> Spec:
    # The schedule is code and a missed tick costs nothing, so beat's own memory of it may be lost with the directory.
    schedule = services.paths.run / _named("beat-schedule", host_id)
    arguments = ["-m", "celery", "-A", "keepstate_site", "beat", "--schedule", str(schedule), "--pidfile", ""]
    return _python(services, "beat", arguments, host_id, stop=10)


def web(services: Services, listener: socket.socket) -> Spec:
    """The supervisor binds the address and hands it over: a restarted web process never finds it taken."""
    env = role(services.environment(), "web")
    return Spec(
        name="web",
        argv=[sys.executable, "-m", "keepstate_site.serve", str(listener.fileno())],
        ready=partial(_answers, f"{url(listener)}/readyz"),
        env=env,
        cwd=PROJECT,
        ready_seconds=READY_SECONDS,
        stop_seconds=25,
        inherits=(listener,),
    )


def _python(services: Services, kind: str, arguments: list[str], host_id: str, *, stop: float) -> Spec:
    """Several hosts may share a root: what a process of one leaves there has the host in its name."""
    name = _named(kind, host_id)
    marker = services.paths.run / f"{name}.ready"
    env = role(services.environment(), "worker") | {"KEEPSTATE_READY_MARKER": str(marker)}
    return Spec(
        name=name,
        argv=[sys.executable, *arguments],
        before=_remover(marker),
        ready=marker.exists,
        env=env | ({"KEEPSTATE_HOST_ID": host_id} if host_id else {}),
        cwd=PROJECT,
        ready_seconds=READY_SECONDS,
        final_codes=frozenset({REFUSED}),
        stop_signal=signal.SIGTERM,
        stop_seconds=stop,
    )


def _named(kind: str, host_id: str) -> str:
    return f"{kind}@{host_id}" if host_id else kind


def _remover(marker: Path) -> Callable[[], None]:
    return lambda: marker.unlink(missing_ok=True)


def listen(port: int | None) -> socket.socket:
    """A listener on loopback: the port asked for (0: any free one); None: 8080, or any free one where that is taken."""
    for candidate in (8080, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", candidate))
        except OSError:
            listener.close()
            if candidate and port is not None:
                raise
            continue
        listener.listen(512)
        return listener
    raise OSError("no port of 127.0.0.1 is free")


def url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=PROBE_SECONDS) as answer:  # noqa: S310  always our own loopback address
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
