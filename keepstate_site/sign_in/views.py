"""The page at which a person lets a terminal in: it shows what asks, and nothing is approved but by its form."""

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from keepstate_site.sign_in import rate
from keepstate_site.sign_in.forms import Decision
from sessions_app.errors import ServiceError
from sessions_app.models import DeviceGrant
from sessions_app.services import device_grant


class SignInView(LoginView):
    template_name = "sign_in/login.html"


class SignOutView(LogoutView):
    pass


@method_decorator([never_cache, login_required], name="dispatch")
class DeviceView(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        code = request.GET.get("user_code", "")
        return self._with_grant(request, code, self._ask) if code else render(request, "sign_in/code.html")

    def post(self, request: HttpRequest) -> HttpResponse:
        return self._with_grant(request, request.POST.get("user_code", ""), self._decide)

    def _with_grant(self, request: HttpRequest, code: str, then: Callable[[HttpRequest, DeviceGrant, str], HttpResponse]) -> HttpResponse:
        try:
            rate.code_tried(request)
            grant = device_grant.find(code)
            if grant is None:
                told = "There is no sign-in with this code that waits for a decision. Look at your terminal: it may show a newer one."
                return render(request, "sign_in/code.html", {"error": told, "code": code[:20]}, status=404)
            return then(request, grant, code)
        except ServiceError as error:
            response = render(request, "sign_in/code.html", {"error": f"{error.message} {error.next_action}"}, status=error.status)
            if error.retry_after_seconds is not None:
                response["Retry-After"] = str(error.retry_after_seconds)
            return response

    def _ask(self, request: HttpRequest, grant: DeviceGrant, code: str, form: Decision | None = None) -> HttpResponse:
        form = form or Decision(_user(request), grant)
        letters = "".join(letter for letter in code.upper() if letter.isalnum())
        shown = {"form": form, "grant": grant, "code": f"{letters[:4]}-{letters[4:]}", "is_member": bool(form.memberships)}
        return render(request, "sign_in/decide.html", shown, status=400 if form.is_bound else 200)

    def _decide(self, request: HttpRequest, grant: DeviceGrant, code: str) -> HttpResponse:
        decision = request.POST.get("decision")
        if decision == "deny":
            device_grant.deny(grant)
            return render(request, "sign_in/done.html", {"approved": False})
        form = Decision(_user(request), grant, request.POST)
        if decision != "approve" or not form.is_valid():
            return self._ask(request, grant, code, form)
        account = form.membership().account
        scopes = device_grant.approve(grant, _user(request), account, form.cleaned_data["scopes"])
        return render(request, "sign_in/done.html", {"approved": True, "account": account, "scopes": scopes})


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # `login_required` has seen to it
    return request.user
