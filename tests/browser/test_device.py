"""The page at which a person lets a terminal in, in a real browser."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from sessions_app.models import Membership
from sessions_app.roles import Role
from sessions_app.services import device_grant
from tests.browser.conftest import shot
from tests.support.fleet import Tenant

PASSWORD = "a long pass phrase"


@pytest.mark.django_db(transaction=True)
def test_a_person_signs_in_and_lets_the_terminal_in_that_shows_the_code(page: Page, owner: Tenant) -> None:
    member = User.objects.create_user("ada", password=PASSWORD)
    Membership.objects.create(user=member, account=owner.account, role=Role.OWNER)
    codes = device_grant.begin(client="ks on a laptop", address="192.0.2.7")
    page.goto(f"/device?user_code={codes.user_code}")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#shown-code")).to_have_text(codes.user_code)
    expect(page.get_by_text("ks on a laptop")).to_be_visible()
    shot(page, "device-decide")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Approved")).to_be_visible()
    shot(page, "device-approved")
    token, plain = device_grant.poll(codes.device_code)
    assert (token.account, token.user) == (owner.account, member)
    assert plain.startswith("ks_")
