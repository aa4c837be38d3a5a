"""One part of the dashboard, drawn within a time: a database that is slow costs its panel, not the page."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest

from keepstate_site.console_pages.figures.span import Span
from sessions_app.drawing.svg import Svg, element

CACHED_SECONDS = 10
READ_SECONDS = 3
log = structlog.get_logger("keepstate.console")


@dataclass(frozen=True)
class Panel:
    """`permissions`: all of them are needed to see it. `wide`: over the whole width of the page."""

    key: str
    title: str
    permissions: tuple[str, ...]
    draw: Callable[[Span], Svg]
    wide: bool = False

    def may_see(self, request: HttpRequest) -> bool:
        return request.user.has_perms(self.permissions)

    def content(self, span: Span) -> Svg:
        """As drawn at most CACHED_SECONDS ago; or a sentence that says why it could not be drawn."""
        key = f"console:{self.key}:{span.name}"
        kept: str | None = cache.get(key)
        if kept is not None:
            return Svg(kept)
        try:
            drawn = self._drawn(span)
        except DatabaseError as error:
            log.warning("panel_not_drawn", panel=self.key, error=type(error).__name__)
            return element("p", _NOT_READ, class_="ks-empty ks-wrong", role="alert")
        cache.set(key, str(drawn), CACHED_SECONDS)
        return drawn

    def _drawn(self, span: Span) -> Svg:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = %s", [READ_SECONDS * 1000])
            return self.draw(span)


_NOT_READ = (
    f"These figures could not be read within {READ_SECONDS} seconds: the database is slow or does not answer. "
    "Nothing is known about them now. Reload the page; look at /readyz and at the database's load."
)
