"""The admin's frame (django-unfold): its name, its colours and where its sidebar comes from."""

from typing import Any

from django.templatetags.static import static

#: A sober blue-green: red, amber and green are left to what is wrong, doubtful and well.
_PRIMARY = {
    "50": "oklch(97.7% .014 200)",
    "100": "oklch(94.6% .03 200)",
    "200": "oklch(90.2% .055 200)",
    "300": "oklch(82.7% .085 200)",
    "400": "oklch(74% .105 205)",
    "500": "oklch(62% .11 210)",
    "600": "oklch(52% .1 215)",
    "700": "oklch(45% .088 217)",
    "800": "oklch(39% .075 219)",
    "900": "oklch(34% .06 221)",
    "950": "oklch(26% .05 223)",
}

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "KeepState",
    "SITE_HEADER": "KeepState",
    "SITE_SUBHEADER": "Operator's console",
    "SITE_ICON": lambda request: static("keepstate/icon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("keepstate/icon.svg")}],
    "SITE_URL": None,
    "SHOW_HISTORY": False,  # what operators did is in the service record
    "SHOW_VIEW_ON_SITE": False,
    "COLORS": {"primary": _PRIMARY},
    "STYLES": [lambda request: static("keepstate/admin.css")],
    "SIDEBAR": {"navigation": "keepstate_site.console_pages.navigation.groups"},
    "DASHBOARD_CALLBACK": "keepstate_site.console_pages.dashboard.context",
}
