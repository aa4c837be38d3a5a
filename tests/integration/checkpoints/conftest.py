from tests.support.shelf_fixtures import shelf, store

__all__ = ["shelf", "store"]
