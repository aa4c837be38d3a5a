"""Elements of SVG and HTML as strings. What is not an `Svg` already is text, and is escaped."""

import html
import re
from typing import Any

#: What XML cannot hold at all, escaped or not.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Svg(str):
    """Markup made by these functions: it is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        """Templates take it as it is."""
        return str(self)


def text(value: Any) -> Svg:
    return value if isinstance(value, Svg) else Svg(html.escape(_FORBIDDEN.sub("\ufffd", str(value)), quote=True))


def element(name: str, *children: Any, **attributes: Any) -> Svg:
    """`class_` and `font_size` are written as `class` and `font-size`; an attribute that is None is left out."""
    written = "".join(f' {_written(key)}="{text(_short(value))}"' for key, value in attributes.items() if value is not None)
    return Svg(f"<{name}{written}>{join(children)}</{name}>")


def _written(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def join(parts: Any) -> Svg:
    return Svg("".join(text(part) for part in parts))


def _short(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def picture(width: float, height: float, title: str, description: str, *content: Svg, class_: str = "", key: str) -> Svg:
    """A whole picture that scales, with its title and description for who does not see it. `key` is unique on the page."""
    named, described = f"{key}-title", f"{key}-desc"
    return element(
        "svg",
        element("title", title, id=named),
        element("desc", description, id=described),
        *content,
        viewBox=f"0 0 {_short(float(width))} {_short(float(height))}",
        role="img",
        aria_labelledby=f"{named} {described}",
        class_=class_ or None,
        preserveAspectRatio="xMinYMin meet",
    )
