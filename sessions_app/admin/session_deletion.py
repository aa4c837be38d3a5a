"""Deleting a session from its page: a plan is made, shown, and executed by who types the session's id."""

from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from sessions_app.drawing.svg import Svg
from sessions_app.drawing.table import table
from sessions_app.errors import ServiceError
from sessions_app.models import Plan, Session
from sessions_app.services import by_operator, session_deletion
from sessions_app.states import PlanKind

PLAN, DECIDE = "sessions_app_session_deletion", "sessions_app_session_deletion_plan"
_TYPED_CHARACTERS = 64
_FIRST = ("session_id", "runtime_state", "running_machine", "checkpoints", "newest_checkpoint_at", "forks")
_PLAIN = {None: "not known", True: "yes", False: "no"}


class DeletionMixin:
    """Two pages of the session's admin. Both take the permission to delete sessions."""

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view  # type: ignore[attr-defined]
        return [
            path("<path:object_id>/deletion/", wrap(self.plan_view), name=PLAN),
            path("<path:object_id>/deletion/<slug:plan_id>/", wrap(self.decide_view), name=DECIDE),
            *super().get_urls(),  # type: ignore[misc]
        ]

    def may_delete(self, request: HttpRequest) -> bool:
        return request.user.has_perm("sessions_app.delete_session")

    def plan_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make a plan, which changes nothing, and lead to it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        session = self._session(request, object_id)
        return HttpResponseRedirect(reverse(f"admin:{DECIDE}", args=[session.pk, session_deletion.make_plan(session).id]))

    def decide_view(self, request: HttpRequest, object_id: str, plan_id: str) -> HttpResponse:
        session = self._session(request, object_id)
        plan = Plan.objects.filter(session=session, kind=PlanKind.SESSION_DELETION, id=plan_id).first()
        if plan is None:
            raise Http404
        if request.method == "POST":
            return self._execute(request, session, plan)
        admin: Any = self
        context = {
            **admin.admin_site.each_context(request),
            "title": f"Delete the session {session.short_id}",
            "opts": Session._meta,
            "session": session,
            "plan": plan,
            "shown": shown(plan.content),
        }
        return TemplateResponse(request, "admin/session_deletion.html", context)

    def _session(self, request: HttpRequest, object_id: str) -> Session:
        if not self.may_delete(request):
            raise PermissionDenied
        admin: ModelAdmin[Session] = self  # type: ignore[assignment]
        session = admin.get_object(request, unquote(object_id))
        if session is None:
            raise Http404
        return session

    def _execute(self, request: HttpRequest, session: Session, plan: Plan) -> HttpResponse:
        typed = request.POST.get("confirm", "")[:_TYPED_CHARACTERS].strip()
        try:
            operation = by_operator.delete(session, request.user.get_username(), plan_id=plan.id, confirm=typed)
        except ServiceError as refusal:
            messages.error(request, f"{refusal.message} {refusal.next_action}".rstrip())
            return HttpResponseRedirect(request.path)
        messages.success(request, f"The deletion is accepted as {operation.id}, and final.")
        return HttpResponseRedirect(reverse("admin:sessions_app_session_change", args=[session.pk]))


def shown(content: dict[str, Any]) -> Svg:
    """A plan's content as a table, the gravest first: what is nested is written as `name: value`."""
    first = [name for name in _FIRST if name in content]
    rows = [[name.replace("_", " "), _words(content[name])] for name in [*first, *sorted(set(content) - set(first))]]
    return table(["What", "As it is now"], rows, empty="The plan is empty.")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name.replace('_', ' ')}: {_words(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return _PLAIN[value] if value is None or isinstance(value, bool) else str(value)
