from sessions_app.admin.account import AccountAdmin
from sessions_app.admin.account_deletion import AccountDeletionAdmin
from sessions_app.admin.device_grant import DeviceGrantAdmin
from sessions_app.admin.event import SessionEventAdmin
from sessions_app.admin.membership import MembershipAdmin
from sessions_app.admin.operation import OperationAdmin
from sessions_app.admin.policy import IdlePolicyAdmin, RecoveryPolicyAdmin, SavePolicyAdmin
from sessions_app.admin.quota import AccountQuotaAdmin
from sessions_app.admin.record import ServiceRecordAdmin
from sessions_app.admin.retention import RetentionPolicyAdmin
from sessions_app.admin.session import SessionAdmin
from sessions_app.admin.token import ApiTokenAdmin
from sessions_app.admin.user import GroupAdmin, UserAdmin
from sessions_app.admin.webhook import WebhookDeliveryAdmin, WebhookEndpointAdmin

__all__ = [
    "AccountAdmin",
    "AccountDeletionAdmin",
    "AccountQuotaAdmin",
    "ApiTokenAdmin",
    "DeviceGrantAdmin",
    "GroupAdmin",
    "IdlePolicyAdmin",
    "MembershipAdmin",
    "OperationAdmin",
    "RecoveryPolicyAdmin",
    "RetentionPolicyAdmin",
    "SavePolicyAdmin",
    "ServiceRecordAdmin",
    "SessionAdmin",
    "SessionEventAdmin",
    "UserAdmin",
    "WebhookDeliveryAdmin",
    "WebhookEndpointAdmin",
]
