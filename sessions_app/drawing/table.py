"""Tables and tiles of a page, as markup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sessions_app.drawing.svg import Svg, element

Look = Literal["plain", "well", "doubt", "wrong"]


@dataclass(frozen=True)
class Cell:
    """A text with a link or a colour. The colour never stands alone: the text says it too."""

    value: Any
    link: str = ""
    look: Look = "plain"


@dataclass(frozen=True)
class Tile:
    label: str
    value: str
    note: str = ""
    look: Look = "plain"
    link: str = ""


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> Svg:
    """Rows of plain values or cells; without a row, the sentence `empty`."""
    drawn = [element("tr", *(_cell(value) for value in row)) for row in rows]
    if not drawn:
        return element("p", empty, class_="ks-empty")
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    return element("div", element("table", element("thead", head), element("tbody", *drawn), class_="ks-table"), class_="ks-scroll")


def _cell(value: Any) -> Svg:
    cell = value if isinstance(value, Cell) else Cell(value)
    shown = element("a", cell.value, href=cell.link) if cell.link else cell.value
    return element("td", shown, class_=None if cell.look == "plain" else f"ks-{cell.look}")


def tiles(wanted: Iterable[Tile]) -> Svg:
    return element("div", *(_tile(one) for one in wanted), class_="ks-tiles")


def _tile(tile: Tile) -> Svg:
    inside = (
        element("span", tile.label, class_="ks-tile-label"),
        element("strong", tile.value, class_="ks-tile-value"),
        element("span", tile.note, class_="ks-tile-note"),
    )
    look = f"ks-tile ks-tile-{tile.look}"
    return element("a", *inside, class_=look, href=tile.link) if tile.link else element("div", *inside, class_=look)
