from tests.support.fixtures import doorbells
from tests.support.shelf_fixtures import store

__all__ = ["doorbells", "store"]
