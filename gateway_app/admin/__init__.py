from gateway_app.admin.budget import AccountBudgetAdmin, SessionBudgetAdmin
from gateway_app.admin.call import CallAdmin
from gateway_app.admin.egress import EgressSumAdmin
from gateway_app.admin.provider_key import ProviderKeyAdmin
from gateway_app.admin.usage import UsageEntryAdmin

__all__ = ["AccountBudgetAdmin", "CallAdmin", "EgressSumAdmin", "ProviderKeyAdmin", "SessionBudgetAdmin", "UsageEntryAdmin"]
