"""`./keepstate demo`: the main job on real parts, from nothing, each claim checked.

A machine with an agent in it is saved live, loses its process to SIGKILL, and resumes mid-work; three times. Once more while a program in
it streams a model's answer: the program sees no break, and the provider bills one call. Then one stored byte is flipped: the checkpoint
that needs it is refused, and the one before it still resumes.
"""

import time
from pathlib import Path

from keepstate_site.client import Client, Refused
from keepstate_site.demo.call import calls
from keepstate_site.demo.corruption import corruption
from keepstate_site.demo.report import ClaimFailed, Report
from keepstate_site.demo.scene import Demo
from keepstate_site.demo.work import cycle, start
from keepstate_site.provider.client import FakeProvider
from keepstate_site.stack.client import running

CYCLES = 3


def main(root: Path, json_file: Path | None) -> int:
    """0 if every claim held. The report is written in either case."""
    report = Report()
    report.say("KeepState demo: save a working machine, kill it, resume it mid-work\n")
    passed = False
    try:
        with running(root, fake_provider=True) as stack:
            report.step(f"the stack runs at {stack.url}", time.monotonic() - report.began)
            demo = Demo(Client(stack.url, stack.token), stack, report)
            start(demo)
            for number in range(1, CYCLES + 1):
                cycle(demo, number)
            calls(demo, FakeProvider(stack.fake_provider))
            corruption(demo)
            demo.client.do("DELETE", f"/api/sessions/{demo.session}?force=1")
        passed = True
    except (ClaimFailed, Refused, TimeoutError) as error:
        report.say(f"\nfailed: {error}")
    report.table()
    report.facts["seconds"] = round(time.monotonic() - report.began, 2)
    report.say(f"\n{'Every claim held' if passed else 'A CLAIM FAILED'}; {report.facts['seconds']:.1f} s in all.")
    if json_file:
        report.write(json_file, passed=passed)
    return 0 if passed else 1
