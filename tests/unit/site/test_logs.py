import pytest

from keepstate_site.settings.logs import MASK, mask


@pytest.mark.parametrize("name", ["password", "api_token", "Authorization", "client_secret", "master_key", "set-cookie"])
def test_a_value_with_the_name_of_a_secret_is_hidden(name: str) -> None:
    assert mask({"outer": [{name: "visible?"}]}) == {"outer": [{name: MASK}]}


@pytest.mark.parametrize("name", ["lease_token", "output_tokens", "state"])
def test_a_harmless_value_stays(name: str) -> None:
    assert mask({name: 42}) == {name: 42}


def test_a_password_within_a_url_and_a_bearer_token_within_a_text_are_hidden() -> None:
    text = mask("could not reach postgresql://me:hunter2@db/x with Bearer ks_abcdefghijklmnop")
    assert "hunter2" not in text
    assert "ks_abcdefghijklmnop" not in text
    assert "@db/x" in text
