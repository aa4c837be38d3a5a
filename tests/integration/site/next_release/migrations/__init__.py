"""The fleet's migrations, and those of a release that is to come: a column, and an index that is built concurrently."""

from pathlib import Path

from workers import migrations

__path__ = [str(Path(__file__).parent), *migrations.__path__]
NEWEST = max(path.stem for path in Path(migrations.__path__[0]).glob("0*.py"))
