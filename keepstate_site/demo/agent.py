"""The demo's agent: a program in the guest whose whole state can be computed outside it.

It keeps a heap that each step changes at one byte, counts, and now and then writes down its count with the heap's checksum. Its nonce is
drawn when it starts: the same nonce after a resume is the same process, not a new one.
"""

import random
import zlib

BLOCKS, BLOCK_BYTES = 96, 1 << 19
REPORT_EVERY = 50
STATUS, LOG = "/root/agent.status", "/root/agent.log"

PROGRAM = f"""
import os, random, time, zlib
random.seed(1)
heap = [bytearray(random.randbytes({BLOCK_BYTES} // 2) + b"abc " * ({BLOCK_BYTES} // 8)) for _ in range({BLOCKS})]
nonce, n = os.urandom(8).hex(), 0
log = open("{LOG}", "a", buffering=1)
while True:
    n += 1
    block = heap[n % {BLOCKS}]
    block[n % {BLOCK_BYTES}] = (block[n % {BLOCK_BYTES}] + 1) & 255
    if n % {REPORT_EVERY} == 0:
        total = 0
        for block in heap:
            total = zlib.crc32(block, total)
        line = "%d %08x %s" % (n, total, nonce)
        log.write(line + "\\n")
        with open("{STATUS}.new", "w") as status:
            status.write(line)
        os.replace("{STATUS}.new", "{STATUS}")
    time.sleep(0.01)
"""


class Simulation:
    """The same heap, kept on the host without the guest. Steps only forward."""

    def __init__(self) -> None:
        generator = random.Random(1)  # noqa: S311  the agent's own seed
        self._heap = [bytearray(generator.randbytes(BLOCK_BYTES // 2) + b"abc " * (BLOCK_BYTES // 8)) for _ in range(BLOCKS)]
        self._n = 0

    def checksum(self, n: int) -> str:
        """The heap's checksum after n steps. ValueError if that lies in the past."""
        if n < self._n:
            raise ValueError("the simulation does not go back")
        for step in range(self._n + 1, n + 1):
            block = self._heap[step % BLOCKS]
            block[step % BLOCK_BYTES] = (block[step % BLOCK_BYTES] + 1) & 255
        self._n = n
        total = 0
        for block in self._heap:
            total = zlib.crc32(block, total)
        return f"{total:08x}"
