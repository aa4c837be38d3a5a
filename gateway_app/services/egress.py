"""Where a session's machine may connect to beside its model provider. Nowhere, unless its owner names hosts and ports."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from gateway_app.egress.names import NAME, NAME_CHARACTERS, PORTS
from gateway_app.egress.policy import Rule
from gateway_app.models import EgressPolicy
from gateway_app.services import live
from gateway_app.states import EgressMode
from sessions_app.errors import Conflict, Invalid
from sessions_app.models import Session
from sessions_app.services import account as accounts
from sessions_app.services import event, record
from sessions_app.states import RecordKind

MOST_RULES = 64
MOST_PORTS = 16
#: Below a star there is a domain, not a whole top level.
_HOST = re.compile(rf"(?:\*\.)?{NAME}")
#: Names of what is behind or beside a host: whatever they resolve to, nothing of ours leads there.
_INSIDE = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "test",
    "invalid",
    "onion",
    "arpa",
)


def of_session(session: Session) -> EgressPolicy:
    """One that was never set denies, at revision 0."""
    return EgressPolicy.objects.filter(session=session).first() or EgressPolicy(session=session, revision=0)


@transaction.atomic
def change(session: Session, mode: str, rules: Sequence[Rule], *, expected_revision: int, actor: str) -> EgressPolicy:
    """The whole policy anew. Raises Invalid, WrongState, or Conflict for a policy that has moved on; then nothing was changed.

    Asking for what is so already changes nothing, whatever revision it names.
    """
    require(mode, rules)
    accounts.require_open(session.account_id)
    session = live.lock(session)
    policy, wanted = of_session(session), [{**asdict(rule), "ports": list(rule.ports)} for rule in rules]
    if (policy.mode, policy.rules) == (mode, wanted):
        return policy
    if policy.revision != expected_revision:
        raise Conflict(
            f"The egress policy is at revision {policy.revision}; the request was made for {expected_revision}. Nothing was changed.",
            next_action="Read it again, then decide again.",
            facts={"revision": policy.revision, "expected_revision": expected_revision},
            code="ks_revision_conflict",
        )
    EgressPolicy.objects.get_or_create(session=session, defaults={"revision": 0})
    EgressPolicy.objects.filter(session=session).update(mode=mode, rules=wanted, revision=F("revision") + 1, changed_at=Now())
    event.append(session.id, "session.egress", {"mode": mode, "rules": wanted}, source="api")
    _tell(session, mode, wanted, expected_revision + 1, actor=actor)
    return EgressPolicy.objects.get(session=session)


def require(mode: str, rules: Sequence[Rule]) -> None:
    if mode not in list(EgressMode):
        raise Invalid(f"mode is one of: {', '.join(EgressMode)}. Nothing was changed.")
    if bool(rules) != (mode == EgressMode.ALLOW_LIST) or len(rules) > MOST_RULES:
        raise Invalid(f"allow_list has 1 to {MOST_RULES} rules, deny has none. Nothing was changed.")
    for rule in rules:
        _require_rule(rule)
    if len({rule.host for rule in rules}) != len(rules):
        raise Invalid("Each host has one rule, with all of its ports. Nothing was changed.")


def _require_rule(rule: Rule) -> None:
    if not _HOST.fullmatch(rule.host) or len(rule.host) > NAME_CHARACTERS:
        raise Invalid(
            "host is the lower-case name of a public host, or *.name for the names below it; addresses are not taken. Nothing was changed."
        )
    if rule.host.rpartition(".")[2] in _INSIDE:
        raise Invalid(f"Names that end in {rule.host.rpartition('.')[2]} are not of public hosts. Nothing was changed.")
    if not 0 < len(rule.ports) <= MOST_PORTS or len(set(rule.ports)) != len(rule.ports) or any(port not in PORTS for port in rule.ports):
        raise Invalid(f"A rule has 1 to {MOST_PORTS} different ports from {PORTS.start} to {PORTS.stop - 1}. Nothing was changed.")


def inherit(parent: Session, child: Session) -> None:
    """A fork's child may connect to where its parent may now. Prerequisite: inside the commit that makes it."""
    policy = of_session(parent)
    if policy.revision:
        EgressPolicy.objects.create(session=child, mode=policy.mode, rules=policy.rules)
        _tell(child, policy.mode, policy.rules, 1, actor="fork")


def _tell(session: Session, mode: str, rules: list[dict[str, Any]], revision: int, *, actor: str) -> None:
    facts = {"mode": mode, "rules": len(rules), "revision": revision}
    record.write(RecordKind.LIFECYCLE, "session.egress", account_id=session.account_id, session_id=session.id, actor=actor, facts=facts)
