"""Who may do what, as data: the scopes that a token carries, and the roles that cut them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Scope(StrEnum):
    SESSIONS_READ = "sessions:read"
    SESSIONS_WRITE = "sessions:write"
    ACCOUNT_MANAGE = "account:manage"


class Role(StrEnum):
    OWNER = "owner"
    OPERATOR = "operator"
    READER = "reader"


#: What a token may do at most, by the role that its user has in its account at the moment of the request.
ROLE_SCOPES: Mapping[Role, frozenset[Scope]] = {
    Role.OWNER: frozenset(Scope),
    Role.OPERATOR: frozenset({Scope.SESSIONS_READ, Scope.SESSIONS_WRITE}),
    Role.READER: frozenset({Scope.SESSIONS_READ}),
}
#: In words, for pages and documents.
SCOPE_WORDS: Mapping[Scope, str] = {
    Scope.SESSIONS_READ: "read sessions: their state, history, saved points, files and usage",
    Scope.SESSIONS_WRITE: "start, change, save, fork and delete sessions, and run commands in them",
    Scope.ACCOUNT_MANAGE: "manage the account: its members, tokens and settings, and its deletion",
}


def in_order(scopes: Iterable[str]) -> list[Scope]:
    """Those of them that are scopes, each once, in the order of this file."""
    given = set(scopes)
    return [scope for scope in Scope if scope in given]


def cut(scopes: Iterable[str], role: str | None) -> list[Scope]:
    """What of the scopes a role leaves; of no role, or of one that is not known, nothing."""
    allowed = ROLE_SCOPES[Role(role)] if role in list(Role) else frozenset()
    return [scope for scope in in_order(scopes) if scope in allowed]
