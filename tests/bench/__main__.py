"""`./keepstate bench NAME [--json FILE] [--rounds N]`."""

import runpy
import sys

BENCHES = {
    "pause": "how long a live save stops the machine",
    "resume": "from the API request to the guest's answer",
    "fork": "eight children of one checkpoint: their answers and their memory",
    "soak": "live saves of a working agent in a row, then one resume: what is stored, and what grows",
    "rate": "how many of so many fresh machines survive a SIGKILL, with the Wilson interval",
    "store": "the checkpoint store on a real machine's images, beside restic, borg and casync",
    "index": "memory and lookups of the dedup indexes, up to 10^8 units",
    "api": "lists, reads and admin pages by the API, and deletions, with 10^5 sessions",
    "control": "operations through API, PostgreSQL, Redis and a worker with a fake hypervisor, with up to 10^5 sessions",
    "fleet": "three hosts under random work and faults: nothing lost, wrong or left over; resumes, and recovery after each fault",
    "gateway": "what a model call costs on its way through the gateway, beside LiteLLM's proxy",
    "scale": "publish, look up and erase while an account grows to 10^6 packs",
}
MODULES = {"index": "tests.bench.store_index", "scale": "tests.bench.store_scale"}


def main() -> int:
    name, sys.argv[1:] = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name not in BENCHES:
        print("usage: keepstate bench NAME [...]    NAME --help: what that one takes")
        for known, what in BENCHES.items():
            print(f"  {known:8} {what}")
        return 0 if name in ("", "-h", "--help") else 2
    sys.argv[0] = f"keepstate bench {name}"
    runpy.run_module(MODULES.get(name, f"tests.bench.{name}"), run_name="__main__")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
