"""python -m workers.guest NAME [--images DIR] [--fresh]: build a guest image, or say where it already is."""

import argparse
import sys
import time
from pathlib import Path

from workers.guest.build import build
from workers.guest.errors import ImageError
from workers.guest.recipe import RECIPES

IMAGES = Path(__file__).resolve().parents[2] / "var" / "images"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.guest", description="Build a guest image and print its directory.")
    parser.add_argument("name", choices=list(RECIPES))
    parser.add_argument("--images", type=Path, default=IMAGES, help="where images are kept (default: var/images)")
    parser.add_argument("--fresh", action="store_true", help="build again even if an equal recipe was built here (newer packages)")
    chosen = parser.parse_args()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{chosen.name} {time.monotonic() - began:5.1f} s] {line}", file=sys.stderr, flush=True)

    try:
        image = build(chosen.name, chosen.images.resolve(), say, fresh=chosen.fresh)
    except ImageError as error:
        print(f"{chosen.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{chosen.name}: interrupted; no image was made", file=sys.stderr)
        return 130
    print(image.kernel.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
