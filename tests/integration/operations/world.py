"""One host of fake machines with a real store and a real database. Operations run in this process, exactly as a worker runs them."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
from django.conf import settings
from django.db.models.functions import Now

from checkpoints_app.models import Checkpoint
from sessions_app.models import Account, Operation, Session
from sessions_app.services import session as sessions
from sessions_app.services import session_deletion
from sessions_app.services.operation import Asked
from sessions_app.services.session import Wanted
from tests.support.waiting import until_gone
from workers.cache.store import packs_directory
from workers.guest.image import Description, image_digest, sha256_of, write_description
from workers.host import machines
from workers.host.drivers import driver
from workers.host.identity import cache_directory, machines_directory, runtime_directory, staging_directory
from workers.machine.driver import Machine, MachineError, MachineState
from workers.machine.fake.driver import FakeDriver
from workers.machine.fake.faults import FakeFaults
from workers.machine.memory.mapping import find_mapping
from workers.machine.process import alive
from workers.operations.run import run

IMAGE = "tiny"
HOST = "h-one"
OTHER = "h-two"  # another host on this machine, of tests that ask for `at_host`


class Died(BaseException):
    """The worker's end in the middle of its work, as far as one process can play it: nothing of ours catches it."""


@dataclass
class World:
    account: Account
    steps: dict[str, Callable[[], object]]  # what to do when a step is reached (workers/crash.py), once

    # -- asking, without doing

    def ask_boot(self) -> Operation:
        return sessions.create(self.account, Wanted(image=IMAGE, memory_mib=128), Asked())

    def ask_save(self, session: Session, *, stop: bool = False) -> Operation:
        return sessions.checkpoint(session, stop=stop, reason="", asked=Asked())

    def ask_resume(self, session: Session, checkpoint_id: str | None = None) -> Operation:
        return sessions.resume(session, checkpoint_id=checkpoint_id, asked=Asked())

    def ask_exec(self, session: Session, *argv: str, seconds: int = 30) -> Operation:
        return sessions.execute(session, argv=list(argv), timeout_seconds=seconds, asked=Asked())

    def ask_delete(self, session: Session) -> Operation:
        return session_deletion.ask(session, force=True, asked=Asked())

    # -- asking and doing

    def boot(self) -> Session:
        return succeeded(self.ask_boot()).session

    def save(self, session: Session, *, stop: bool = False) -> Checkpoint:
        operation = succeeded(self.ask_save(session, stop=stop))
        session.refresh_from_db()
        assert operation.response is not None
        return Checkpoint.objects.get(id=operation.response["checkpoint_id"])

    def resume(self, session: Session, checkpoint_id: str | None = None) -> Operation:
        operation = succeeded(self.ask_resume(session, checkpoint_id))
        session.refresh_from_db()
        return operation

    def delete(self, session: Session) -> Operation:
        operation = succeeded(self.ask_delete(session))
        session.refresh_from_db()
        return operation

    def runtime(self, session: Session) -> Path:
        return runtime_directory(session.id, session.epoch)

    # -- what goes wrong

    @property
    def faults(self) -> FakeFaults:
        found = driver()
        assert isinstance(found, FakeDriver)
        return found.faults

    def at(self, step: str, act: Callable[[], object]) -> None:
        self.steps[step] = act

    def die_at(self, step: str) -> None:
        def die() -> None:
            raise Died(step)

        self.at(step, die)

    def kill(self, session: Session) -> None:
        """SIGKILL to the hypervisor, from outside."""
        pid = pid_of(session)
        os.kill(pid, signal.SIGKILL)
        until_gone(pid, 60)


def done(operation: Operation) -> Operation:
    """The operation after a worker heard its doorbell."""
    run(operation.id)
    operation.refresh_from_db()
    operation.session.refresh_from_db()
    return operation


def succeeded(operation: Operation) -> Operation:
    done(operation)
    assert operation.state == "succeeded", operation.error
    return operation


def error_of(operation: Operation) -> dict[str, object]:
    """Why it failed; it must have."""
    done(operation)
    assert operation.state == "failed", operation.state
    assert operation.error is not None
    found: dict[str, object] = operation.error
    return found


def expire(operation: Operation) -> None:
    """As if its worker had not renewed for long."""
    Operation.objects.filter(id=operation.id).update(lease_expires_at=Now() - timedelta(seconds=1))


# -- what is there now, asked of the kernel, the guest and the disk


def machine_of(session: Session) -> Machine:
    machine = machines.machine_of(session)
    assert machine is not None, "the session's machine lives"
    return machine


def pid_of(session: Session) -> int:
    pid = machine_of(session).inspect().pid
    assert pid is not None
    return pid


def runs(session: Session) -> bool:
    return machine_of(session).inspect().state is MachineState.RUNNING


def guest(session: Session, script: str) -> str:
    result = machine_of(session).exec(["sh", "-c", script], timeout_seconds=30, output_limit=65536)
    assert result.exit_code == 0, result
    return result.stdout.decode().strip()


def live_machines() -> list[str]:
    """Runtime directories whose process lives."""
    return sorted(runtime.name for runtime in machines_directory().glob("*") if alive.is_held(runtime))


def runtime_directories() -> list[str]:
    return sorted(runtime.name for runtime in machines_directory().glob("*"))


def objects() -> dict[str, str]:
    """Every object of the store with its digest, but for the account's key, which stays as long as the account."""
    root = store_directory() / "objects"
    found = [path for path in root.rglob("*") if path.is_file() and path.name != "key"]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def store_directory() -> Path:
    return Path(settings.STORAGES["checkpoints"]["OPTIONS"]["location"])


def leftovers() -> list[str]:
    """What a save that has ended must not leave: its staging, half-made images, unfinished objects."""
    found = [*staging_directory().glob("*"), *cache_directory().glob("*/tmp-*"), *(store_directory() / "staging").glob("*")]
    return [str(path) for path in found]


def events(session: Session) -> list[str]:
    return list(session.events.order_by("number").values_list("type", flat=True))


def forget_cache() -> None:
    """As another host would be: nothing is assembled, and no pack of a store elsewhere is here."""
    for path in cache_directory().glob("*/*"):
        path.unlink()
    shutil.rmtree(packs_directory(), ignore_errors=True)


def damage(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def write_image(images: Path) -> None:
    """An image without a disk; its files are never read by a fake machine."""
    made = images / "made"
    made.mkdir(parents=True)
    for name in ("kernel", "initrd"):
        (made / name).write_text(name)
    architecture = os.uname().machine
    digest = image_digest(architecture, "", {name: sha256_of(made / name) for name in ("kernel", "initrd")})
    write_description(
        made, Description(IMAGE, digest, architecture, "kernel", "initrd", None, 0, "", 128, hashlib.sha256(b"").hexdigest(), "none", {})
    )
    made.rename(images / digest)


def end_every_machine() -> None:
    for runtime in machines_directory().glob("*"):
        machine = driver().attach(runtime)
        if machine is not None:
            try:
                machine.kill()
            except MachineError as error:
                raise AssertionError(json.dumps(str(error))) from error


def scribble(session: Session, mib: int, seed: int, *, at_mib: int = 8) -> None:
    """As if the guest had written so many MiB of its memory with bytes that do not compress."""
    record = json.loads((machine_of(session).runtime / "machine.json").read_text())
    (segment,) = find_mapping(pid_of(session), record["memory_inode"], record["memory_bytes"])
    noise = np.random.default_rng(seed).bytes(mib << 20)
    with open(f"/proc/{pid_of(session)}/mem", "r+b", buffering=0) as memory:
        written = os.pwrite(memory.fileno(), noise, segment.address + (at_mib << 20))
    assert written == len(noise)
