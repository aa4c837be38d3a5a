"""The admin's first page: what is wrong now, then what happened over a day or a week."""

from typing import Any

from django.http import HttpRequest

from keepstate_site.console_pages.figures.span import SPANS, chosen
from keepstate_site.console_pages.panels import PANELS


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's hook: what its index page gets."""
    span = chosen(request.GET.get("span"))
    panels = [{"panel": panel, "content": panel.content(span)} for panel in PANELS if panel.may_see(request)]
    spans = [{"name": one.name, "title": one.title, "chosen": one is span} for one in SPANS.values()]
    return {**context, "panels": panels, "spans": spans}
