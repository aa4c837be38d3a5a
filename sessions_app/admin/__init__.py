from sessions_app.admin.account import AccountAdmin
from sessions_app.admin.event import SessionEventAdmin
from sessions_app.admin.operation import OperationAdmin
from sessions_app.admin.policy import IdlePolicyAdmin, SavePolicyAdmin
from sessions_app.admin.record import ServiceRecordAdmin
from sessions_app.admin.session import SessionAdmin
from sessions_app.admin.token import ApiTokenAdmin
from sessions_app.admin.user import GroupAdmin, UserAdmin

__all__ = [
    "AccountAdmin",
    "ApiTokenAdmin",
    "GroupAdmin",
    "IdlePolicyAdmin",
    "OperationAdmin",
    "SavePolicyAdmin",
    "ServiceRecordAdmin",
    "SessionAdmin",
    "SessionEventAdmin",
    "UserAdmin",
]
