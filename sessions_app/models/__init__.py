from sessions_app.models.account import Account
from sessions_app.models.account_deletion import AccountDeletion
from sessions_app.models.device_grant import DeviceGrant
from sessions_app.models.event import SessionEvent
from sessions_app.models.membership import Membership
from sessions_app.models.operation import Operation
from sessions_app.models.plan import Plan
from sessions_app.models.policy import IdlePolicy, RecoveryPolicy, SavePolicy
from sessions_app.models.quota import AccountQuota
from sessions_app.models.record import ServiceRecord
from sessions_app.models.request import RecordedRequest
from sessions_app.models.retention import RetentionDue, RetentionPolicy
from sessions_app.models.sample import Sample
from sessions_app.models.session import Session
from sessions_app.models.token import ApiToken
from sessions_app.models.usage import AccountUsage, SessionUsage
from sessions_app.models.webhook import WebhookDelivery, WebhookEndpoint
from sessions_app.models.workspace import Workspace, WorkspacePart

__all__ = [
    "Account",
    "AccountDeletion",
    "AccountQuota",
    "AccountUsage",
    "ApiToken",
    "DeviceGrant",
    "IdlePolicy",
    "Membership",
    "Operation",
    "Plan",
    "RecordedRequest",
    "RecoveryPolicy",
    "RetentionDue",
    "RetentionPolicy",
    "Sample",
    "SavePolicy",
    "ServiceRecord",
    "Session",
    "SessionEvent",
    "SessionUsage",
    "WebhookDelivery",
    "WebhookEndpoint",
    "Workspace",
    "WorkspacePart",
]
