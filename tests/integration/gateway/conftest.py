from tests.support.fixtures import api, doorbells, owner, stranger

__all__ = ["api", "doorbells", "owner", "stranger"]
