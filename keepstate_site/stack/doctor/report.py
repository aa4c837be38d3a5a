"""Run every check, print the findings, end with 1 if any failed."""

import argparse
import json
import sys
from pathlib import Path

from keepstate_site.stack.doctor import fleet, gateway, installation, isolation, machine, network, programs
from keepstate_site.stack.doctor.finding import Check, Finding, Verdict, examine

CHECKS: dict[str, Check] = {
    "python": programs.python,
    "packages": programs.packages,
    "qemu": programs.qemu,
    "kvm": machine.kvm,
    "isolation": isolation.isolation,
    "network": network.network,
    "databases": programs.databases,
    "disk": machine.disk,
    "memory": machine.memory,
    "images": installation.images,
    "settings": installation.settings,
    "servers": installation.servers,
    "stack": installation.stack,
    "fleet": fleet.fleet,
    "gateway": gateway.gateway,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="keepstate doctor")
    parser.add_argument("--json", type=Path, help="write the findings there as well")
    options = parser.parse_args(argv)
    findings = [finding for name, check in CHECKS.items() for finding in examine(name, check)]
    for finding in findings:
        sys.stdout.write(line(finding))
    if options.json:
        rows = [{"name": item.name, "verdict": item.verdict, "text": item.text, "fix": item.fix} for item in findings]
        options.json.write_text(json.dumps({"findings": rows}, indent=2) + "\n")
    bad = [finding.name for finding in findings if finding.verdict == Verdict.FAIL]
    sys.stdout.write(f"\n{len(bad)} failed: {', '.join(bad)}\n" if bad else "\nnothing failed\n")
    return 1 if bad else 0


def line(finding: Finding) -> str:
    fix = f"\n{'':33}-> {finding.fix}" if finding.fix else ""
    return f"{finding.verdict:<8} {finding.name:<23} {finding.text}{fix}\n"
