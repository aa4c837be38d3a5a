"""What this version can do, row by row: the one place. A test holds each row against its routes and the refusals that it promises.

What depends on the installation of the moment (which architectures its hosts run) is added by the app that can tell (steps.capabilities).
"""

from sessions_app.services.steps import CapabilityRow

_LATER = "This version does not have it."
_NOT_SERVED = "ks_route_not_served"

_AVAILABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("discovery", "This document, with a token and without.", ("capabilities", "capabilities-public")),
    ("preflight", "What a run needs and lacks; creates and reserves nothing.", ("preflight",)),
    ("account.sign_in", "Sign in on a terminal by a page of this service; who one is; the end of a token.",
     ("device-code", "device-token", "whoami", "token-revoke")),
    ("account.tokens", "List, make and revoke the account's tokens; a token is told once, when it is made.", ("tokens", "token")),
    ("account.members", "Members of an account with the roles owner, operator and reader.", ("members", "member")),
    ("account.quotas", "Read the account's quotas and what is used of them; what goes beyond is refused before work starts.", ("account",)),
    ("account.usage", "Awake time, stored bytes and billed tokens of the account, each with its standing.", ("account-usage",)),
    ("account.record", "Read the account's lines of the service record, which outlive what they tell of.", ("account-record",)),
    ("session.start", "Start a session from a guest image.", ("sessions",)),
    ("session.list", "List and read sessions with their state, epoch and last checkpoint.", ("session-list", "session-read")),
    ("session.records", "Make a session's record without a machine, rename it, provision it later.",
     ("session-list", "session-read", "session-provision")),
    ("session.exec", "Run one command in the guest: exit code, both streams, whether they were cut, duration.", ("session-exec",)),
    ("session.attach", "An interactive terminal: a WebSocket with resize, or ks-attach.", ("session-console", "session-attach")),
    ("session.files", "List, read, download and write files of a running session's workspace.",
     ("session-files", "session-file-content", "session-file-download")),
    ("session.workspace", "Begin with an uploaded archive, unpacked before the session runs; download the workspace as a tar.",
     ("workspaces", "workspace", "session-workspace")),
    ("checkpoints.save", "Save a running session: memory, disk and devices of one moment, published atomically.",
     ("session-checkpoint", "session-pause")),
    ("checkpoints.list", "List a session's saved checkpoints, newest first.", ("session-checkpoints",)),
    ("checkpoints.point", "Read, name and delete one saved checkpoint.", ("session-checkpoint-point",)),
    ("session.resume", "Resume a session from its last checkpoint or from a named one.", ("session-resume", "session-resume-v2")),
    ("session.fork", "Branch a checkpoint into 1 to 8 running children, each a session of its own.", ("session-fork",)),
    ("session.fork_plan", "Show what a fork would make, and make exactly that by the plan's digest.",
     ("session-fork-plan", "session-fork-by-plan")),
    ("session.restore", "Take a session back to a named checkpoint, with a reason and consent to what is left.", ("session-restore",)),
    ("session.lineage", "Read the tree of a session's forks, and a fork's history from its parent's on.", ("session-lineage",)),
    ("session.checkpoint_policy", "Save a running session by itself at an interval; off until asked for.", ("session-checkpoint-policy",)),
    ("session.idle", "Warn an idle session, then save and park it; off until asked for.", ("session-idle",)),
    ("session.recovery_policy", "Whether a session goes on by itself from its last checkpoint when its host or its machine is lost.",
     ("session-recovery-policy",)),
    ("retention", "Expire checkpoints by a policy that is shown before it is set; none expires otherwise.",
     ("retention", "retention-preview", "session-retention", "session-retention-preview")),
    ("session.delete", "End a session's machine and erase what only this session held.", ("session",)),
    ("deletion.plans", "Show what a deletion would do, and delete by that plan.", ("session-deletion-plan", "session-read")),
    ("account.deletion", "Delete the account: planned, scheduled with its name typed, cancelled while it waits; a receipt outlives it.",
     ("account-deletion-plan", "account-deletion", "receipt")),
    ("account.export", "Export all records of the account as JSON lines.", ("account-export",)),
    ("operations.idempotent", "Repeat a mutation under its Idempotency-Key: one effect, the same answer.", ("operation",)),
    ("operations.list", "List operations, newest first, of one session or in one state.", ("operation-list",)),
    ("operations.cancel", "Ask a boot, save, resume or command to stop; what finishes first wins.", ("operation-cancel",)),
    ("events.list", "Read a session's history, numbered without gaps.", ("session-events",)),
    ("events.stream", "Follow a session's history as server-sent events, from any number on.", ("session-events-stream",)),
    ("session.logs", "Read a session's log: set-up, saves, resumes and failures, in words.", ("session-logs",)),
    ("session.usage", "Model calls, awake time and stored bytes of a session, each with its standing.", ("session-usage",)),
    ("session.meter", "A session's spent tokens, billed and replayed calls, and the keys that it is bound to.", ("session-meter",)),
    ("session.calls", "List a session's model calls: metadata, tokens and cost where they are known.", ("session-calls",)),
    ("session.bindings", "Bind provider keys to a session by id: that key is used, or nothing is.", ("session-bindings",)),
    ("session.steers", "Put a text into a session's next model call and no other, or into that of a fork's children.", ("session-steers",)),
    ("session.egress", "Where a session's machine may connect to: nowhere, or to hosts and ports that are named; what it did.",
     ("session-egress",)),
    ("keys.inventory", "Register, read, exchange, disable and delete provider keys; a secret is in no answer.",
     ("keys", "key", "key-deletion-plan")),
    ("budget.admission", "Budgets in tokens and money, of sessions and the account: over one no call leaves, and the session is parked.",
     ("session-budget", "account-budget")),
    ("webhooks", "Be told of session and checkpoint events, signed as Standard Webhooks has it.",
     ("webhooks", "webhook", "webhook-secret", "webhook-test", "webhook-deliveries", "webhook-redeliver")),
)  # fmt: skip

#: A row that is not available names what asks for it, and the word by which it is refused.
_UNAVAILABLE: tuple[tuple[str, str, str, str, str], ...] = (
    ("api.v2.workspace", "Workspace records with agents and tasks.", "GET", "/api/v2/tasks", _NOT_SERVED),
    ("agent.workspace", "Agents in sessions.", "POST", "/api/v2/sessions", "ks_agents_not_served"),
    ("agents.open", "Windows on agents.", "POST", "/api/v2/agents/agent_1/open", _NOT_SERVED),
    ("session.migration", "Plain sessions made into sessions with agents.", "GET", "/api/v2/sessions/{session}/migration", _NOT_SERVED),
    ("cruise.proposals", "Jobs of models.", "GET", "/api/jobs", _NOT_SERVED),
)

ROWS: tuple[CapabilityRow, ...] = (
    *(CapabilityRow(id_, "available", summary, routes=routes) for id_, summary, routes in _AVAILABLE),
    *(
        CapabilityRow(id_, "unavailable", summary, note=_LATER, refusal=(method, path, code))
        for id_, summary, method, path, code in _UNAVAILABLE
    ),
)
