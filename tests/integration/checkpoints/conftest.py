from tests.support.fixtures import doorbells
from tests.support.shelf_fixtures import shelf, store

__all__ = ["doorbells", "shelf", "store"]
