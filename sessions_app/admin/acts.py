"""What an operator may do with a row: a button on its page, and an entry in the list's actions, made from the same line of data.

An act is a POST, calls a service that writes the service record in the transaction of the act, and tells what came of it. Who may look
(Django's permission to view) may not act: that takes the permission to change, although no row is ever edited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from sessions_app.errors import ServiceError

#: So many rows of a list in one act: each is a transaction of its own, and the request has a time.
MOST_CHOSEN = 50


@dataclass(frozen=True)
class Act:
    """`do` takes the row and the operator's name, and returns what was done, as a sentence; it raises ServiceError and then did nothing."""

    name: str
    label: str
    do: Callable[[Any, str], str]
    offered: Callable[[Any], bool] = lambda _row: True  # a hint for the page; the service decides
    grave: bool = False  # the button asks once more
    in_lists: bool = True


class ActsMixin:
    acts: ClassVar[tuple[Act, ...]] = ()
    change_form_outer_before_template = "admin/acts.html"

    def has_operate_permission(self, request: HttpRequest) -> bool:
        opts = self.model._meta  # type: ignore[attr-defined]
        return bool(request.user.has_perm(f"{opts.app_label}.change_{opts.model_name}"))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        if not self.has_operate_permission(request):
            return {}
        return {act.name: (_for_chosen(act), act.name, act.label) for act in self.acts if act.in_lists}

    def get_urls(self) -> list[URLPattern]:
        opts = self.model._meta  # type: ignore[attr-defined]
        view = self.admin_site.admin_view(self.act_view)  # type: ignore[attr-defined]
        return [
            path("<path:object_id>/act/<slug:name>/", view, name=f"{opts.app_label}_{opts.model_name}_act"),
            *super().get_urls(),  # type: ignore[misc]
        ]

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Do one act with one row, then show its page again."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_operate_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        act = next((act for act in self.acts if act.name == name), None)
        if row is None or act is None:
            raise Http404
        perform(request, act, row)
        opts = self.model._meta  # type: ignore[attr-defined]
        return HttpResponseRedirect(reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[quote(row.pk)]))

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None) -> Any:
        offers = self._offers(request, object_id) if object_id else []
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), "offers": offers})  # type: ignore[misc]

    def _offers(self, request: HttpRequest, object_id: str) -> list[dict[str, Any]]:
        if not self.acts or not self.has_operate_permission(request):
            return []
        row = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        if row is None:
            return []
        opts = self.model._meta  # type: ignore[attr-defined]
        name = f"admin:{opts.app_label}_{opts.model_name}_act"
        return [
            {"label": act.label, "confirm": act.grave, "url": reverse(name, args=[quote(row.pk), act.name])}
            for act in self.acts
            if act.offered(row)
        ]


def _for_chosen(act: Act) -> Callable[[Any, HttpRequest, "QuerySet[Any]"], None]:
    def act_on_chosen(_admin: Any, request: HttpRequest, chosen: "QuerySet[Any]") -> None:
        rows = list(chosen[: MOST_CHOSEN + 1])
        if len(rows) > MOST_CHOSEN:
            messages.error(request, f"More than {MOST_CHOSEN} rows were chosen. Nothing was done. Choose fewer.")
            return
        for row in rows:
            perform(request, act, row)

    return act_on_chosen


def perform(request: HttpRequest, act: Act, row: Any) -> None:
    """Do it and tell the operator what came of it, a refusal with what to do next."""
    try:
        messages.success(request, f"{row}: {act.do(row, request.user.get_username())}")
    except ServiceError as refusal:
        messages.error(request, f"{act.label}, {row}: {refusal.message} {refusal.next_action}".rstrip())
