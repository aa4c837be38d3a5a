"""The fork tree as SVG: checkpoints along each session's line, with what an operator looks for marked by shape and word. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checkpoints_app.lineage.layout import Place, Point, layout
from sessions_app.drawing.svg import Svg, element, join, picture

COLUMN, ROW, RADIUS = 46.0, 58.0, 7.0
LEFT, TOP, RIGHT, BOTTOM = 24.0, 34.0, 120.0, 30.0
_NAME_CHARACTERS = 24


@dataclass(frozen=True)
class Node:
    """A checkpoint as it is drawn. `name` is its owner's, empty for most."""

    point: Point
    state: str
    at: str
    link: str
    name: str = ""
    is_head: bool = False
    is_held: bool = False
    cut: bool = False  # it has a parent that is not in the picture


@dataclass(frozen=True)
class Line:
    """A session. `here`: the one whose page this is."""

    id: str
    label: str
    link: str
    here: bool = False


def draw(nodes: Sequence[Node], lines: Mapping[str, Line]) -> Svg:
    """Without a checkpoint there is no picture, but a sentence."""
    places = layout([node.point for node in nodes])
    drawn = [node for node in nodes if node.point.id in places]
    if not drawn:
        return element("p", "No checkpoint has been saved on this line yet.", class_="ks-empty")
    width = LEFT + COLUMN * max(place.column for place in places.values()) + RIGHT
    height = TOP + ROW * max(place.row for place in places.values()) + BOTTOM
    told = f"{len(drawn)} checkpoints of {len({node.point.line for node in drawn})} sessions, the oldest left."
    content = [*_edges(drawn, places), *_labels(drawn, places, lines), *(_node(node, places[node.point.id]) for node in drawn)]
    image = picture(width, height, "Lineage", told, *content, class_="ks-lineage", key="lineage")
    return join((element("div", _sized(image, width, height), class_="ks-scroll"), _legend()))


def _sized(image: Svg, width: float, height: float) -> Svg:
    """Its own size, and no larger: a tree of three points is not blown up to the width of the page."""
    return element("div", image, style=f"width:{width:.0f}px;height:{height:.0f}px")


def _x(place: Place) -> float:
    return LEFT + COLUMN * place.column


def _y(place: Place) -> float:
    return TOP + ROW * place.row


def _edges(nodes: Sequence[Node], places: Mapping[str, Place]) -> list[Svg]:
    edges = []
    for node in nodes:
        to, above = places[node.point.id], places.get(node.point.parent or "")
        if above is not None:
            edges.append(element("path", d=_way(above, to), class_="ks-edge" if above.row == to.row else "ks-edge ks-fork"))
        elif node.cut:
            edges.append(element("path", d=f"M{_x(to) - 20:.0f} {_y(to):.0f}H{_x(to):.0f}", class_="ks-edge ks-cut"))
    return edges


def _way(above: Place, to: Place) -> str:
    """Within the gap between the two columns, where no point lies."""
    if above.row == to.row:
        return f"M{_x(above):.0f} {_y(above):.0f}H{_x(to):.0f}"
    middle = (_x(above) + _x(to)) / 2
    return f"M{_x(above):.0f} {_y(above):.0f}C{middle:.0f} {_y(above):.0f} {middle:.0f} {_y(to):.0f} {_x(to):.0f} {_y(to):.0f}"


def _labels(nodes: Sequence[Node], places: Mapping[str, Place], lines: Mapping[str, Line]) -> list[Svg]:
    """Each row is a session's: its name stands over the row's first point."""
    first: dict[int, Node] = {}
    for node in nodes:
        row = places[node.point.id].row
        if row not in first or places[node.point.id].column < places[first[row].point.id].column:
            first[row] = node
    return [_label(lines[node.point.line], places[node.point.id]) for node in first.values() if node.point.line in lines]


def _label(line: Line, place: Place) -> Svg:
    shown = element(
        "text", line.label[:_NAME_CHARACTERS], x=_x(place) - RADIUS, y=_y(place) - 14, class_="ks-here" if line.here else "ks-line"
    )
    return shown if line.here else element("a", shown, href=line.link)


def _node(node: Node, place: Place) -> Svg:
    x, y = _x(place), _y(place)
    shapes = [element("circle", cx=x, cy=y, r=RADIUS, class_=f"ks-point ks-{node.state}")]
    if node.is_head:
        shapes.append(element("circle", cx=x, cy=y, r=RADIUS + 4, class_="ks-head"))
    if node.state == "corrupt":
        shapes.append(element("path", d=f"M{x - 4:.0f} {y - 4:.0f}l8 8m0 -8l-8 8", class_="ks-cross"))
    if node.is_held:
        shapes.append(element("rect", x=x - 3, y=y - 3, width=6, height=6, class_="ks-held"))
    if node.name:
        shapes.append(element("text", node.name[:_NAME_CHARACTERS], x=x, y=y + 22, text_anchor="middle", class_="ks-name"))
    return element("a", element("title", _told(node)), *shapes, href=node.link)


def _told(node: Node) -> str:
    marks = [word for word, is_so in (("head", node.is_head), ("held", node.is_held), (f"named {node.name}", bool(node.name))) if is_so]
    return ", ".join([f"{node.point.id}: {node.state}", *marks, node.at])


def _legend() -> Svg:
    words = (
        "A ring marks a head, a cross a corrupt checkpoint, a square one that is held; an empty point failed or was erased. "
        "Each point leads to its page."
    )
    return element("p", words, class_="ks-empty")
