from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest
from django.urls import reverse

from sessions_app.admin import session_page
from sessions_app.admin.acts import Act
from sessions_app.admin.readonly import ReadOnlyAdmin, mebibytes
from sessions_app.admin.session_deletion import PLAN, DeletionMixin
from sessions_app.admin.shown import state_label
from sessions_app.ids import RECORD_PREFIX, SHORT_ID_LENGTH
from sessions_app.models import Operation, Session
from sessions_app.services import by_operator
from sessions_app.states import ALLOWED_FROM, OperationKind, SessionState


def _asked(do: Any) -> Any:
    def ask(session: Session, by: str) -> str:
        operation: Operation = do(session, by)
        return f"{operation.kind} {operation.id} is queued."

    return ask


def _from(kind: OperationKind) -> Any:
    return lambda session: session.runtime_state in ALLOWED_FROM[kind]


def _rests(session: Session) -> bool:
    """A running session may be resumed too, where its machine is gone and nobody has seen it; the button would mislead at all others."""
    return session.runtime_state in ALLOWED_FROM[OperationKind.RESUME] - {SessionState.RUNNING}


@admin.register(Session)
class SessionAdmin(DeletionMixin, ReadOnlyAdmin):
    list_display = (
        *("short_id", "name", "account", "state", "epoch"),
        *("image_name", "memory", "host_id", "parent", "last_activity_at"),
    )
    list_display_links = ("short_id",)
    list_select_related = ("account",)
    list_filter = ("runtime_state",)
    search_fields = ("id", "name", "=host_id", "account__name", "account__id")
    search_help_text = "A session's id, its name, its account's name, or how they begin; a host's whole id."
    ordering = ("-last_activity_at", "-id")
    acts = (
        Act("save", "Save", _asked(by_operator.save), _from(OperationKind.CHECKPOINT)),
        Act("park", "Save and park", _asked(by_operator.park), _from(OperationKind.CHECKPOINT)),
        Act("move", "Move to another host", _asked(by_operator.move), _from(OperationKind.CHECKPOINT), grave=True),
        Act("resume", "Resume", _asked(by_operator.resume), _rests),
    )

    change_form_outer_before_template = "admin/session_page.html"

    state = state_label("runtime_state")

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None) -> Any:
        session = self.get_object(request, unquote(object_id)) if object_id else None
        parts = session_page.of(session) if session is not None and self.has_view_permission(request) else []
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), "parts": parts})

    def _offers(self, request: HttpRequest, object_id: str) -> list[dict[str, Any]]:
        deletion = {"label": "Delete…", "grave": True, "url": reverse(f"admin:{PLAN}", args=[object_id])}
        return super()._offers(request, object_id) + ([deletion] if self.may_delete(request) else [])

    def search_text(self, text: str) -> str:
        return text.strip().removeprefix(RECORD_PREFIX)

    @admin.display(description="parent")
    def parent(self, session: Session) -> str:
        """The short id of the session that this one is a fork of; that one may be deleted."""
        return session.parent_id[:SHORT_ID_LENGTH] or "–"

    @admin.display(description="memory")
    def memory(self, session: Session) -> str:
        return mebibytes(session.memory_bytes)
