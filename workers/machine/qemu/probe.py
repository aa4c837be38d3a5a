"""What a QEMU process would be like on this host, asked of one that is started for the question and ended after the answer.

Two facts are known to nobody else: which processor features a guest would see (under KVM: what the host's processor, its kernel and QEMU
agree on), and which of QEMU's modules the process loads (a distribution may ship an accelerator as a file beside the binary).
"""

import hashlib
import json
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workers.machine.digests import FileVersion, file_sha256, file_version
from workers.machine.driver import MachineError
from workers.machine.process.identity import boot_id
from workers.machine.qemu.binary import PROBE_SECONDS, QemuBinary

MODULE_PLACE = "/qemu/"  # of a path in the process's map: QEMU looks for its modules in a directory of that name
ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class Probe:
    cpu_sha256: str  # over every property of the CPU model, as QEMU expands it on this host
    modules_sha256: str  # over the modules that the process had loaded


def probe(qemu: QemuBinary, machine: str, accelerator: str, cpu: str) -> Probe:
    """Remembered until the binary or the host's boot changes. Raises `hypervisor_missing` with QEMU's own words."""
    return _probe(qemu.path, file_version(qemu.path), boot_id(), machine, accelerator, cpu)


@lru_cache(maxsize=8)
def _probe(path: Path, _version: FileVersion, _boot: str, machine: str, accelerator: str, cpu: str) -> Probe:
    argv = [str(path), "-nodefaults", "-no-user-config", "-display", "none", "-S", "-machine", machine, "-accel", accelerator, "-cpu", cpu]
    argv += ["-qmp", "stdio"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        timer = threading.Timer(PROBE_SECONDS, process.kill)
        timer.start()
        try:
            properties = _cpu_properties(process, cpu.partition(",")[0])
            modules = _modules(process.pid) if properties is not None else []
        finally:
            timer.cancel()
            process.kill()
            process.wait()
        errors.seek(0)
        said = errors.read(ANSWER_BYTES).decode(errors="replace").strip()[-500:]
    if properties is None:
        raise MachineError("hypervisor_missing", f"{path.name} did not say what machine it would give ({machine}, {accelerator}): {said}")
    lines = "".join(f"{module.name} {file_sha256(module)}\n" for module in modules)
    return Probe(_sha256(json.dumps(properties, sort_keys=True)), _sha256(lines))


def _cpu_properties(process: "subprocess.Popen[bytes]", model: str) -> object | None:
    """None if the process ended, or did not answer as the protocol says."""
    assert process.stdin
    assert process.stdout
    try:
        for command in ({"execute": "qmp_capabilities"}, _expansion(model)):
            os.write(process.stdin.fileno(), json.dumps(command).encode() + b"\n")  # unbuffered: nothing is left to fail at the close
        answers: list[Any] = []
        while len(answers) < 2:
            message = json.loads(process.stdout.readline(ANSWER_BYTES))
            if "return" in message or "error" in message:
                answers.append(message)
        properties: object = answers[1]["return"]["model"]["props"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return properties


def _expansion(model: str) -> dict[str, object]:
    return {"execute": "query-cpu-model-expansion", "arguments": {"type": "full", "model": {"name": model}}}


def _modules(pid: int) -> list[Path]:
    """Raises OSError if the process is gone."""
    mapped = {line.split(maxsplit=5)[5].strip() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if MODULE_PLACE in line}
    return sorted(Path(name) for name in mapped if name.endswith(".so"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
