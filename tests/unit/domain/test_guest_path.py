"""Paths of files in a machine, as text."""

import pytest

from sessions_app.errors import Forbidden, Invalid
from sessions_app.services import guest_path


@pytest.mark.parametrize(
    ("text", "understood"), [("", ""), (".", ""), ("./", ""), ("a", "a"), ("./a//b/.", "a/b"), ("a/b c/grün", "a/b c/grün"), ("...", "...")]
)
def test_a_relative_path_is_understood(text, understood):
    assert guest_path.checked(text) == understood


@pytest.mark.parametrize(
    "text", ["/", "/a", "~", "~/a", "..", "a/..", "../a", "a/../b", "a\\b", "a\0", "a\n", "\x1b[2J", "\u202e", "x" * 256, "a/" * 3000]
)
def test_any_other_text_is_refused_by_name(text):
    with pytest.raises(Invalid) as refused:
        guest_path.checked(text)
    assert refused.value.word == "ks_path_refused"


@pytest.mark.parametrize(
    "path",
    [".env", "a/.ENV", ".env.local", "x/.ssh/config", "id_rsa", "deep/server.pem", ".aws/credentials", ".docker/config.json", "k.key"],
)
def test_names_that_usually_hold_credentials_are_not_given_out(path):
    with pytest.raises(Forbidden) as refused:
        guest_path.require_readable(path)
    assert refused.value.word == "ks_path_redacted"


@pytest.mark.parametrize(
    "path", ["environment.py", "keys.py", ".env.example", "id_rsa.pub", "config.json", "a/tokens.md", ".ssh/known_hosts"]
)
def test_other_names_are_given_out(path):
    guest_path.require_readable(path)
