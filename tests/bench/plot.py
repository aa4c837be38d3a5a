"""Distributions as a picture: one line of dots per condition, with its median and 95th percentile, as SVG."""

from collections.abc import Mapping, Sequence
from html import escape

from tests.bench.report import quantile

_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 900, 220, 30, 34, 50
_TICKS = 8


def plot(title: str, values: Mapping[str, Sequence[float]]) -> str:
    """Prerequisite: each has at least one value, none below zero."""
    top = max(max(found) for found in values.values()) * 1.05 or 1.0
    height = _TOP + _LINE * len(values) + 40

    def x(value: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / top, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/><text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for tick in range(_TICKS + 1):
        at = top * tick / _TICKS
        parts.append(f'<line x1="{x(at)}" x2="{x(at)}" y1="{_TOP - 10}" y2="{height - 34}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(at)}" y="{height - 16}" text-anchor="middle" fill="#555">{at:.2f}</text>')
    for number, (name, found) in enumerate(values.items()):
        y = _TOP + _LINE * number + _LINE // 2
        parts.append(f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        parts += [f'<circle cx="{x(value)}" cy="{y}" r="4" fill="#2b6cb0" fill-opacity="0.45"/>' for value in found]
        for share, colour in ((0.5, "#222"), (0.95, "#c53030")):
            at = x(quantile(found, share))
            parts.append(f'<line x1="{at}" x2="{at}" y1="{y - 11}" y2="{y + 11}" stroke="{colour}" stroke-width="2"/>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="24" text-anchor="end" fill="#555">black: median, red: 95th percentile</text></svg>')
    return "\n".join(parts) + "\n"
