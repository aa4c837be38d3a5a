"""The pages of signing in."""

from django.urls import URLPattern, path

from keepstate_site.sign_in.views import DeviceView, SignInView, SignOutView

urlpatterns: list[URLPattern] = [
    path("device", DeviceView.as_view(), name="device"),
    path("device/login", SignInView.as_view(), name="sign-in"),
    path("device/logout", SignOutView.as_view(), name="sign-out"),
]
