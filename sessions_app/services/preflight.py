"""What a session would need and lacks now. Nothing is created or reserved; what cannot be judged is told as such, never as passed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from sessions_app.errors import ServiceError
from sessions_app.models import ApiToken, Session
from sessions_app.roles import Scope
from sessions_app.services import bounds, dispatch, quota, steps, waiting
from sessions_app.services import session as sessions
from sessions_app.services import token as tokens
from sessions_app.services.placement import Placement
from sessions_app.services.session import Wanted


class Outcome(StrEnum):
    PASS = "pass"  # noqa: S105  the contract's word
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True)
class Planned:
    """A run as it is planned; None: not said."""

    image: str | None = None
    memory_mib: int | None = None
    mode: str | None = None
    provider: str | None = None
    workspace_bytes: int | None = None
    workspace_files: int | None = None
    check_command: str | None = None
    ladder: tuple[object, ...] = ()


@dataclass(frozen=True)
class Check:
    check: str
    status: Outcome
    category: str
    detail: str
    next_action: str = ""


@dataclass
class Found:
    checks: list[Check] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return all(one.status != Outcome.BLOCK for one in self.checks)

    def judge(self, check: str, category: str, passed: str, do: Callable[[], object]) -> bool:
        """`do` raises what blocks."""
        try:
            do()
        except ServiceError as error:
            self.checks.append(Check(check, Outcome.BLOCK, category, error.message, error.next_action))
            return False
        self.checks.append(Check(check, Outcome.PASS, category, passed))
        return True


def look(token: ApiToken, planned: Planned) -> Found:
    """Raises nothing for what is missing: that is what it finds."""
    found = Found()
    found.judge("token", "authentication", "The token may start sessions.", lambda: tokens.require(token, Scope.SESSIONS_WRITE))
    _mode(found, planned)
    _machine(found, token, planned)
    found.judge("quota", "quota", "The account's quotas have room for it now.", lambda: quota.require_start(token.account_id))
    _workspace(found, planned)
    _provider(found, token, planned)
    _broker(found)
    _beyond(found, planned)
    return found


def _mode(found: Found, planned: Planned) -> None:
    if planned.mode not in (None, "plain"):
        detail = f"This version has no sessions of mode {planned.mode}."
        found.checks.append(Check("mode", Outcome.BLOCK, "setup", detail, "Leave the mode out: a plain session runs any program of yours."))


def _machine(found: Found, token: ApiToken, planned: Planned) -> None:
    """The image, and a host with room for a machine of it now: another session may take that room before this one comes."""
    wanted = Wanted(image=planned.image, memory_mib=planned.memory_mib)
    if not found.judge("image", "setup", "The image is here.", lambda: sessions.draft(token.account, wanted)):
        found.not_checked.append("host: without an image it is not known which hosts could take it")
        return
    _host(found, sessions.draft(token.account, wanted))


def _host(found: Found, draft: Session) -> None:
    """A start for which there is no room now is accepted and waits."""
    placed: list[Placement] = []
    found.judge("host", "fleet", "A host has room now.", lambda: placed.append(sessions.place(draft)))
    if placed and placed[0].waits_for:
        detail = f"A start would wait. {waiting.words(placed[0].waits_for)}"
        found.checks[-1] = Check("host", Outcome.WARN, "fleet", detail, "Start it and wait, or park another session first.")


def _workspace(found: Found, planned: Planned) -> None:
    for check, size, most, unit in (
        ("workspace_bytes", planned.workspace_bytes, bounds.WORKSPACE_BYTES, "bytes"),
        ("workspace_files", planned.workspace_files, bounds.WORKSPACE_FILES, "files"),
    ):
        if size is None:
            found.not_checked.append(f"{check}: not said")
        elif size > most:
            detail = f"A workspace has at most {most} {unit}; this one has {size}."
            found.checks.append(Check(check, Outcome.BLOCK, "workspace", detail, "Leave out what the run does not need."))
        else:
            found.checks.append(Check(check, Outcome.PASS, "workspace", f"{size} of at most {most} {unit}."))


def _provider(found: Found, token: ApiToken, planned: Planned) -> None:
    if planned.provider is None:
        return
    if steps.has_key.call(token.account_id, planned.provider):
        found.checks.append(Check("provider", Outcome.PASS, "setup", "The account has an enabled key of this provider."))
    else:
        detail = f"The account has no enabled key of {planned.provider}: model calls to it would be refused."
        found.checks.append(
            Check("provider", Outcome.BLOCK, "setup", detail, "Register one: POST /api/v2/keys, then bind it to the session.")
        )


def _broker(found: Found) -> None:
    if dispatch.answers():
        found.checks.append(Check("broker", Outcome.PASS, "service", "The service's broker answers."))
    else:
        detail = "The service's broker does not answer: what is asked for is kept, and begins once it does."
        found.checks.append(Check("broker", Outcome.WARN, "service", detail, "Ask again in a while, or tell the operator."))


def _beyond(found: Found, planned: Planned) -> None:
    found.not_checked.append("credit: this version has no credit; budgets are asked at each model call")
    if planned.check_command is not None:
        found.not_checked.append("check_command: it is run by nobody here")
    if planned.ladder:
        found.not_checked.append("ladder: models are not called by this version")
