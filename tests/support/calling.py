"""A session whose model calls may leave: it runs, its keys are bound, its budget is not spent."""

from gateway_app.models import KeyBinding, ProviderKey, SessionBudget
from gateway_app.states import Provider
from sessions_app.models import Account, Session
from sessions_app.services import steps
from tests.support.fleet import session_row

TOKENS = 1_000_000


def calling_session(account: Account, provider_key: str, *, tokens: int = TOKENS) -> Session:
    """Its calls of every provider leave with that key."""
    session = session_row(account, budget_tokens=tokens)
    sealed = steps.seal.call(account.id, provider_key.encode())
    for provider in Provider:
        key = ProviderKey.objects.create(account=account, provider=provider, last4=provider_key[-4:], secret=sealed)
        KeyBinding.objects.create(session=session, provider=provider, key=key)
    SessionBudget.objects.create(session=session)
    return session
