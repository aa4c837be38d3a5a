"""One browser and one server for the module; a page for each test, which loads nothing from elsewhere and complains of nothing."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.server import serving
from tests.support.fixtures import doorbells, owner

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--font-render-hinting=none"),
]
WIDTH, HEIGHT = 1440, 1000

__all__ = ["doorbells", "owner"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.fail("The distribution's package `chromium` is not installed: ./keepstate test installs it, or apt-get install chromium.")
    with sync_playwright() as playwright:
        # Playwright's loop runs in this thread, where Django refuses to be called beside one; nothing here is asynchronous
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield launched
        launched.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="module")
def address(django_db_setup: None) -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def context(browser: Browser, address: str, transactional_db: None) -> Iterator[BrowserContext]:
    cache.clear()
    opened = browser.new_context(base_url=address, viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    opened.set_default_timeout(20_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """Fails the test for a script's error, a refusal of the content policy, or a request that leaves this server."""
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    opened.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type == "error" else None)
    opened.on("request", lambda request: None if _ours(request.url, address) else wrong.append(f"left: {request.url}"))
    yield opened
    assert wrong == []


def _ours(url: str, address: str) -> bool:
    return url.startswith((address, "data:", "blob:"))


def shot(page: Page, name: str) -> None:
    """A picture for who looks at it later: KEEPSTATE_VAR/screenshots/NAME.png, of the whole page."""
    directory: Any = settings.KEEPSTATE_VAR / "screenshots"
    directory.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(directory / f"{name}.png"), full_page=True)
