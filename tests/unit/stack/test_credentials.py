from pathlib import Path

import pytest

from keepstate_site.stack import credentials, up
from keepstate_site.stack.credentials import Logins
from keepstate_site.stack.errors import StackError
from keepstate_site.stack.paths import prepare

LOGINS = Logins("operator", "a password", "acct_1", "ks_token")


def test_logins_are_shown_once_and_again_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = prepare(tmp_path)
    credentials.keep(paths, LOGINS)
    assert any("ks_token" in line for line in up.welcome(paths, "http://here", LOGINS, show=True))
    assert not any("ks_token" in line or "a password" in line for line in up.welcome(paths, "http://here", LOGINS, show=True))
    assert up.show_credentials(tmp_path) == 0
    assert "operator / a password" in capsys.readouterr().out


def test_output_that_is_a_log_shows_no_secret(tmp_path: Path) -> None:
    paths = prepare(tmp_path)
    credentials.keep(paths, LOGINS)
    said = up.welcome(paths, "http://here", LOGINS, show=False)
    assert said
    assert not any("ks_token" in line or "a password" in line for line in said)


def test_a_password_that_a_person_changed_is_not_made_up(tmp_path: Path) -> None:
    assert "changed since" in up.credential_lines(Logins("operator", None, "acct_1", "ks_token"))[0]


def test_before_the_first_start_there_is_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="holds no login yet"):
        up.show_credentials(tmp_path)
