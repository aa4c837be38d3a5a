"""Paths of files in a session's machine: relative text, and which names are taken for secrets.

The text is only the first check: where a path leads is decided in the machine, by what its kernel says of the opened file.
"""

import fnmatch

from sessions_app.errors import Forbidden, Invalid

PATH_BYTES = 4096
NAME_BYTES = 255
#: Names, and ends of paths, whose content is never given out: what usually holds credentials. Case does not count.
SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "credentials", "credentials.*", "*.credentials", "secrets", "secrets.*", "*.secret", "*.secrets", "*_token", "*.token",
    "service-account*.json", "*service_account*.json", ".vault-token", "shadow", "gshadow", ".credentials.json", "auth.json",
)  # fmt: skip
SECRET_ENDS = (".docker/config.json", ".kube/config", ".config/gh/hosts.yml", ".cargo/config.toml", ".m2/settings.xml")
SECRET_DIRECTORIES = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".password-store"})
#: What looks like one of the names and holds no secret.
KNOWN_PUBLIC = ("*.pub", ".env.example", ".env.sample", ".env.template", "known_hosts", "authorized_keys")


def checked(text: str) -> str:
    """The path without empty and `.` segments; empty for the workspace itself. Raises Invalid (ks_path_refused)."""
    if text.startswith(("/", "~")) or "\\" in text or not text.isprintable() or len(text.encode(errors="replace")) > PATH_BYTES:
        raise _refused("A path is relative to the workspace: printable text without a backslash, that does not begin with '/' or '~'.")
    segments = [segment for segment in text.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise _refused("A path has no '..'.")
    if any(len(segment.encode(errors="replace")) > NAME_BYTES for segment in segments):
        raise _refused(f"A name in a path has at most {NAME_BYTES} bytes.")
    return "/".join(segments)


def is_secret(path: str) -> bool:
    """Whether the path's name, or a directory on it, is one that usually holds credentials. A guess by names, never by content."""
    lowered = path.lower()
    *directories, name = lowered.split("/")
    if any(fnmatch.fnmatchcase(name, public) for public in KNOWN_PUBLIC):
        return False
    return (
        not SECRET_DIRECTORIES.isdisjoint(directories)
        or any(fnmatch.fnmatchcase(name, secret) for secret in SECRET_NAMES)
        or any(lowered == end or lowered.endswith(f"/{end}") for end in SECRET_ENDS)
    )


def require_readable(path: str) -> None:
    """Raises Forbidden (ks_path_redacted) for what is taken for a secret."""
    if is_secret(path):
        raise Forbidden(
            "This file's name is one that usually holds credentials; its content is not given out. Nothing was read.",
            next_action="Read it in the machine, with exec or the console, if you must.",
            code="ks_path_redacted",
        )


def _refused(message: str) -> Invalid:
    return Invalid(f"{message} Nothing was read or written.", code="ks_path_refused", next_action="See GET .../files?path=.")
