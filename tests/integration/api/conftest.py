from tests.support.fixtures import api, doorbells, heard_of, owner, stranger

__all__ = ["api", "doorbells", "heard_of", "owner", "stranger"]
