"""The routes of accounts, operations, sessions and their history."""

from django.urls import URLPattern, path, re_path

from sessions_app.api.account import WhoAmIView
from sessions_app.api.account_deletion import AccountDeletionPlanView, AccountDeletionView, ReceiptView
from sessions_app.api.account_export import AccountExportView
from sessions_app.api.account_figures import AccountRecordView, AccountUsageView, AccountView
from sessions_app.api.cancel import OperationCancelView
from sessions_app.api.capabilities import CapabilitiesView, PublicCapabilitiesView
from sessions_app.api.console import AttachView, ConsoleView
from sessions_app.api.device import DeviceCodeView, DeviceTokenView
from sessions_app.api.event import EventListView
from sessions_app.api.event_stream import EventStreamView
from sessions_app.api.execute import ExecView
from sessions_app.api.files import FileContentView, FileDownloadView, FileListView
from sessions_app.api.fork import ForkView
from sessions_app.api.fork_plan import ForkByPlanView, ForkPlanView
from sessions_app.api.lineage import LineageView
from sessions_app.api.member import MembersView, MemberView
from sessions_app.api.not_served import NotServedV2View, NotServedView
from sessions_app.api.operation import OperationListView, OperationView
from sessions_app.api.policy import IdlePolicyView, SavePolicyView
from sessions_app.api.preflight import PreflightView
from sessions_app.api.record import ProvisionView
from sessions_app.api.recovery_policy import RecoveryPolicyView
from sessions_app.api.restore import RestoreView
from sessions_app.api.session import CheckpointView, ResumeView, SessionsView, SessionView
from sessions_app.api.session_deletion import DeletionPlanView
from sessions_app.api.session_log import LogView
from sessions_app.api.session_v2 import PauseView, SessionListView, SessionReadView
from sessions_app.api.session_v2 import ResumeView as ResumeV2View
from sessions_app.api.token import RevokeView, TokensView, TokenView
from sessions_app.api.usage import MeterView, UsageView
from sessions_app.api.webhook import WebhookListView, WebhookSecretView, WebhookTestView, WebhookView
from sessions_app.api.webhook_delivery import DeliveryListView, RedeliverView
from sessions_app.api.workspace import WorkspacesView, WorkspaceView
from sessions_app.api.workspace_download import WorkspaceDownloadView

urlpatterns: list[URLPattern] = [
    path("api/device/code", DeviceCodeView.as_view(), name="device-code"),
    path("api/device/token", DeviceTokenView.as_view(), name="device-token"),
    path("api/whoami", WhoAmIView.as_view(), name="whoami"),
    path("api/v2/account/deletion-plan", AccountDeletionPlanView.as_view(), name="account-deletion-plan"),
    path("api/v2/account/deletion", AccountDeletionView.as_view(), name="account-deletion"),
    path("api/v2/account/export", AccountExportView.as_view(), name="account-export"),
    path("api/v2/receipts/<str:deletion_id>", ReceiptView.as_view(), name="receipt"),
    path("api/v2/account", AccountView.as_view(), name="account"),
    path("api/v2/account/usage", AccountUsageView.as_view(), name="account-usage"),
    path("api/v2/account/record", AccountRecordView.as_view(), name="account-record"),
    path("api/tokens/revoke", RevokeView.as_view(), name="token-revoke"),
    path("api/v2/tokens", TokensView.as_view(), name="tokens"),
    path("api/v2/tokens/<str:token_id>", TokenView.as_view(), name="token"),
    path("api/v2/members", MembersView.as_view(), name="members"),
    path("api/v2/members/<str:member_id>", MemberView.as_view(), name="member"),
    path("api/capabilities", CapabilitiesView.as_view(), name="capabilities"),
    path("api/v2/capabilities", PublicCapabilitiesView.as_view(), name="capabilities-public"),
    path("api/operations/<path:operation_id>/cancel", OperationCancelView.as_view(), name="operation-cancel"),
    path("api/operations/<path:operation_id>", OperationView.as_view(), name="operation"),
    path("api/v2/operations", OperationListView.as_view(), name="operation-list"),
    path("api/sessions", SessionsView.as_view(), name="sessions"),
    path("api/sessions/<str:session_id>", SessionView.as_view(), name="session"),
    path("api/sessions/<str:session_id>/checkpoint", CheckpointView.as_view(), name="session-checkpoint"),
    path("api/sessions/<str:session_id>/resume", ResumeView.as_view(), name="session-resume"),
    path("api/sessions/<str:session_id>/fork", ForkView.as_view(), name="session-fork"),
    path("api/sessions/<str:session_id>/attach", AttachView.as_view(), name="session-attach"),
    path("api/sessions/<str:session_id>/meter", MeterView.as_view(), name="session-meter"),
    path("api/sessions/<str:session_id>/exec", ExecView.as_view(), name="session-exec"),
    path("api/v2/sessions", SessionListView.as_view(), name="session-list"),
    path("api/v2/sessions/<str:session_id>", SessionReadView.as_view(), name="session-read"),
    path("api/v2/sessions/<str:session_id>/provision", ProvisionView.as_view(), name="session-provision"),
    path("api/v2/sessions/<str:session_id>/deletion-plan", DeletionPlanView.as_view(), name="session-deletion-plan"),
    path("api/v2/sessions/<str:session_id>/pause", PauseView.as_view(), name="session-pause"),
    path("api/v2/sessions/<str:session_id>/resume", ResumeV2View.as_view(), name="session-resume-v2"),
    path("api/v2/sessions/<str:session_id>/checkpoint-policy", SavePolicyView.as_view(), name="session-checkpoint-policy"),
    path("api/v2/sessions/<str:session_id>/idle", IdlePolicyView.as_view(), name="session-idle"),
    path("api/v2/sessions/<str:session_id>/recovery-policy", RecoveryPolicyView.as_view(), name="session-recovery-policy"),
    path("api/v2/sessions/<str:session_id>/files", FileListView.as_view(), name="session-files"),
    path("api/v2/sessions/<str:session_id>/files/content", FileContentView.as_view(), name="session-file-content"),
    path("api/v2/sessions/<str:session_id>/files/download", FileDownloadView.as_view(), name="session-file-download"),
    path("api/v2/sessions/<str:session_id>/workspace", WorkspaceDownloadView.as_view(), name="session-workspace"),
    path("api/v2/workspaces", WorkspacesView.as_view(), name="workspaces"),
    path("api/v2/workspaces/<str:workspace_id>", WorkspaceView.as_view(), name="workspace"),
    path("api/v2/sessions/<str:session_id>/console", ConsoleView.as_view(), name="session-console"),
    path("api/v2/sessions/<str:session_id>/fork-plan", ForkPlanView.as_view(), name="session-fork-plan"),
    path("api/v2/sessions/<str:session_id>/fork", ForkByPlanView.as_view(), name="session-fork-by-plan"),
    path("api/v2/sessions/<str:session_id>/restore", RestoreView.as_view(), name="session-restore"),
    path("api/v2/sessions/<str:session_id>/usage", UsageView.as_view(), name="session-usage"),
    path("api/v2/sessions/<str:session_id>/logs", LogView.as_view(), name="session-logs"),
    path("api/v2/preflight", PreflightView.as_view(), name="preflight"),
    path("api/v2/sessions/<str:session_id>/lineage", LineageView.as_view(), name="session-lineage"),
    path("api/v2/sessions/<str:session_id>/events", EventListView.as_view(), name="session-events"),
    path("api/v2/sessions/<str:session_id>/events/stream", EventStreamView.as_view(), name="session-events-stream"),
    path("api/v2/webhooks", WebhookListView.as_view(), name="webhooks"),
    path("api/v2/webhooks/<str:webhook_id>", WebhookView.as_view(), name="webhook"),
    path("api/v2/webhooks/<str:webhook_id>/rotate-secret", WebhookSecretView.as_view(), name="webhook-secret"),
    path("api/v2/webhooks/<str:webhook_id>/test", WebhookTestView.as_view(), name="webhook-test"),
    path("api/v2/webhooks/<str:webhook_id>/deliveries", DeliveryListView.as_view(), name="webhook-deliveries"),
    path("api/v2/webhooks/<str:webhook_id>/deliveries/<str:message_id>/redeliver", RedeliverView.as_view(), name="webhook-redeliver"),
]

#: Included last by the site: whatever no app serves under /api.
catch_all: list[URLPattern] = [
    re_path(r"^api/v2/(?P<rest>[\s\S]*)", NotServedV2View.as_view(), name="not-served-v2"),  # a path may hold a newline
    re_path(r"^api/(?P<rest>[\s\S]*)", NotServedView.as_view(), name="not-served"),
]
