"""`./keepstate demo [--json FILE]`."""

import argparse
import sys
from pathlib import Path

from keepstate_site.demo.run import main
from keepstate_site.stack.paths import default_root

parser = argparse.ArgumentParser(
    prog="keepstate demo", description="Save a working machine, kill it, resume it mid-work; every claim checked."
)
parser.add_argument("--json", type=Path, help="write what was measured to this file")
options = parser.parse_args()
sys.exit(main(default_root(), options.json))
