from sessions_app.admin.account import AccountAdmin
from sessions_app.admin.event import SessionEventAdmin
from sessions_app.admin.operation import OperationAdmin
from sessions_app.admin.policy import IdlePolicyAdmin, SavePolicyAdmin
from sessions_app.admin.session import SessionAdmin
from sessions_app.admin.token import ApiTokenAdmin

__all__ = [
    "AccountAdmin", "ApiTokenAdmin", "IdlePolicyAdmin", "OperationAdmin", "SavePolicyAdmin", "SessionAdmin", "SessionEventAdmin",
]  # fmt: skip
