"""A QEMU process of the test's own with one guest image in it: emulated, no driver of ours involved."""

import base64
import itertools
import json
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.machine.driver import GuestImage

BOOT_SECONDS = 120
ANSWER_SECONDS = 60
EXEC = "/usr/lib/keepstate/exec"


@dataclass(frozen=True)
class Ran:
    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes


class PlainMachine:
    """Boots at once; the constructor returns when the guest agent answers."""

    def __init__(self, image: GuestImage, directory: Path):
        self.serial = directory / "serial"
        agent = directory / "qga"
        argv = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "512M",
            "-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", image.command_line,
            "-no-reboot", "-display", "none", "-serial", f"file:{self.serial}",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=qga,path={agent},server=on,wait=off",
            "-device", "virtserialport,chardev=qga,name=org.qemu.guest_agent.0",
            "-device", "vmgenid,guid=auto", "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
        ]  # fmt: skip
        if image.disk:
            overlay = directory / "overlay.qcow2"
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.disk), str(overlay)], check=True)
            argv += ["-drive", f"file={overlay},format=qcow2,if=virtio"]
        self.process = subprocess.Popen(argv)
        try:
            self.socket = self._connect(agent)
            self.received = b""
            self.synchronise()
        except BaseException:
            self.kill()
            raise

    def synchronise(self) -> None:
        """Wait for an agent that answers. What one agent has read dies with it, so the question is repeated, each time by another name:
        what is answered to an earlier one comes before.
        """
        deadline = time.monotonic() + BOOT_SECONDS
        for number in itertools.count(471100):
            self.socket.sendall(b'\xff{"execute":"guest-sync-delimited","arguments":{"id":%d}}\n' % number)
            try:
                while b"%d" % number not in self._line(10):
                    pass
                break
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise
        self.received = b""

    def _connect(self, path: Path) -> socket.socket:
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(path))
                return connection
            except OSError:
                connection.close()
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.01)

    def _line(self, seconds: float = ANSWER_SECONDS) -> bytes:
        self.socket.settimeout(seconds)
        while b"\n" not in self.received:
            got = self.socket.recv(1 << 20)
            if not got:
                raise ConnectionError(f"the machine ended; its console said: {self.console()[-2000:]}")
            self.received += got
        line, self.received = self.received.split(b"\n", 1)
        return line

    def console(self) -> str:
        return self.serial.read_text(errors="replace")

    def call(self, command: str, *, seconds: float = ANSWER_SECONDS, **arguments: object) -> Any:
        """One guest agent command and its answer."""
        self.send(command, **arguments)
        answer = json.loads(self._line(seconds).lstrip(b"\xff"))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["return"]

    def send(self, command: str, **arguments: object) -> None:
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")

    def run(self, *argv: str, data: bytes = b"", seconds: float = ANSWER_SECONDS) -> Ran:
        """Run a program to its end with its output captured."""
        request: dict[str, object] = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
        if data:
            request["input-data"] = base64.b64encode(data).decode()
        return self.result(self.call("guest-exec", seconds=seconds, **request)["pid"], seconds)

    def result(self, pid: int, seconds: float = ANSWER_SECONDS) -> Ran:
        """Wait until the agent says that a program has ended and its streams are closed."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            status = self.call("guest-exec-status", seconds=seconds, pid=pid)
            if status["exited"]:
                out, err = (base64.b64decode(status.get(f"{name}-data", "")) for name in ("out", "err"))
                return Ran(status.get("exitcode"), status.get("signal"), out, err)
            time.sleep(0.02)
        raise TimeoutError(f"the program {pid} did not end")

    def wrapped(self, seconds: float, limit: int, *argv: str) -> Ran:
        return self.run(EXEC, str(seconds), str(limit), *argv)

    def shell(self, script: str, seconds: float = ANSWER_SECONDS) -> str:
        return self.run("/bin/sh", "-c", script, seconds=seconds).stdout.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
