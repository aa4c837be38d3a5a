"""Which hosts can resume what was saved under a pin, as a table for an operator: of each other host, what differs."""

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from sessions_app.services import steps
from sessions_app.services.steps import HostFit

SHOWN_HOSTS = 50
SHOWN_CHARACTERS = 200  # a device list is long, and its beginning seldom differs: see `shortened`


def hosts_table(pin_digest: str) -> SafeString:
    fits = steps.hosts_for_pin.call(pin_digest)
    able = sum(fit.takes_it for fit in fits)
    rows = format_html_join(
        "", "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", ((fit.host, verdict(fit), differences(fit)) for fit in fits[:SHOWN_HOSTS])
    )
    head = (
        "<p>{} of {} hosts can resume it now.</p><table class='ks-table'>"
        "<tr><th>host</th><th>now</th><th>differs in: field, saved, host</th></tr>{}</table>"
    )
    return format_html(head, able, len(fits), rows)


def holders_table(pin_digest: str) -> SafeString:
    """Who holds a pin or held it, and since when."""
    found = steps.pin_holders.call(pin_digest)
    rows = format_html_join(
        "",
        "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
        ((one.host, one.state.replace("_", " "), one.since or "") for one in found[:SHOWN_HOSTS]),
    )
    head = "<p>{} hosts hold it or held it.</p><table class='ks-table'><tr><th>host</th><th>now</th><th>since</th></tr>{}</table>"
    return format_html(head, len(found), rows)


def verdict(fit: HostFit) -> str:
    if not fit.same_architecture:
        return f"{fit.state}; it has proved no pin of this architecture"
    if not fit.same_pin:
        return f"{fit.state}; another pin"
    return "can resume it" if fit.takes_it else f"{fit.state}; the pin is equal"


def differences(fit: HostFit) -> SafeString:
    pairs = ((name, *shortened(values["checkpoint"], values["host"])) for name, values in sorted(fit.differences.items()))
    return format_html_join("", "<div><b>{}</b>: {} ≠ {}</div>", pairs)


def shortened(saved: str | None, here: str | None) -> tuple[str, str]:
    """Two long texts are shown from a little before the place where they part."""
    texts = [text if text is not None else "(none)" for text in (saved, here)]
    if max(map(len, texts)) <= SHOWN_CHARACTERS:
        return texts[0], texts[1]
    parted = next((at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), min(map(len, texts)))
    start = max(0, parted - SHOWN_CHARACTERS // 4)
    cut = [
        ("…" if start else "") + text[start : start + SHOWN_CHARACTERS] + ("…" if len(text) > start + SHOWN_CHARACTERS else "")
        for text in texts
    ]
    return cut[0], cut[1]
