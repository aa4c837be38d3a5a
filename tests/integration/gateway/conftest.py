from tests.support.fixtures import doorbells, owner

__all__ = ["doorbells", "owner"]
