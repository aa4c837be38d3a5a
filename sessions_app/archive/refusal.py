"""Why an archive is not taken."""

from sessions_app.errors import Invalid

NAME_SHOWN = 120


class ArchiveRefused(Invalid):
    """`why`: a whole sentence. Nothing of the archive was kept."""

    code = "ks_archive_refused"

    def __init__(self, why: str, *, name: str | bytes | None = None):
        shown = None if name is None else _shown(name)
        super().__init__(
            f"{why}{f' It is about {shown!r}.' if shown is not None else ''} Nothing was kept.",
            next_action="Make the archive of plain files and directories, within the limits of GET /api/capabilities.",
            facts={} if shown is None else {"entry": shown},
        )


class ArchiveTooLarge(ArchiveRefused):
    code, status = "ks_too_large", 413


def _shown(name: str | bytes) -> str:
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)[:NAME_SHOWN]
