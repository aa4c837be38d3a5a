"""Pages to look at rows that belong to services: the admin shows them and changes nothing behind a service's back.

What an operator may do stands in `acts` (admin/acts.py): each act is a service's, refused by the service's rules.
"""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline
from unfold.views import ChangeList

from sessions_app.admin.acts import ActsMixin
from sessions_app.admin.paging import BoundedPaginator
from sessions_app.admin.searching import search


class _ReadOnly:
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(_ReadOnly, TabularInline):
    """Rows of a row. Bound them where there may be many: every one of them is shown."""

    extra = 0


class _BoundedChangeList(ChangeList):
    def get_ordering_field(self, field_name: str) -> Any:
        """A column that no index sorts by is not sorted by, also where an address asks for it."""
        return super().get_ordering_field(field_name) if field_name in self.sortable_by else None


class ReadOnlyAdmin(_ReadOnly, ActsMixin, ModelAdmin):
    """A list costs the same queries for few rows and for many, and none of them reads or counts the whole table.

    `sortable_by` names the columns that an index or a small table may sort by; `list_filter` holds choices alone, since a filter over
    "all values" would read all rows for them; `search_fields` as in `admin/searching.py`.
    """

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # each would count the table once per filter
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 50
    list_disable_select_all = True
    sortable_by: ClassVar[Any] = ()
    list_fullwidth = True
    search_help_text = "A full id or how it begins; a name or how it begins."

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return _BoundedChangeList

    def get_search_results(self, request: HttpRequest, queryset: "QuerySet[Any]", search_term: str) -> tuple["QuerySet[Any]", bool]:
        return search(queryset, self.get_search_fields(request), self.search_text(search_term)), False

    def search_text(self, text: str) -> str:
        """What is looked for when an operator types this."""
        return text.strip()


def mebibytes(size: int | None) -> str:
    """A size in bytes for a reader; a figure that is not known is a dash."""
    return "–" if size is None else f"{size / (1 << 20):.1f} MiB"
