"""Pages of a large table without counting it: at most so many rows are counted, and paged through; a search finds the others."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

#: A list that is longer is told as such. It also bounds how far a page's OFFSET reaches.
MOST_ROWS = 1000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    template_name = "admin/bounded_pages.html"

    @cached_property
    def _seen(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]  # the admin's lists are query sets
        return rows.order_by()[: MOST_ROWS + 1].count()

    @property
    def is_cut(self) -> bool:
        return self._seen > MOST_ROWS

    @cached_property
    def count(self) -> int:
        return min(self._seen, MOST_ROWS)
