"""A headless Chromium of the system, by Playwright."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)

needs_browser = [
    pytest.mark.skipif(find_spec("playwright") is None, reason="needs playwright"),
    pytest.mark.skipif(_CHROMIUM is None, reason="needs chromium: apt-get install chromium"),
]
"""Marks of tests that are skipped without a browser."""
PATIENCE = 60_000
"""Milliseconds after which a page that does not show what a test waits for has failed."""


def running() -> Iterator[Any]:
    """Yield a headless browser, which is closed afterwards."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=arguments)
        yield browser
        browser.close()


def eventually(page: Any, is_true: Callable[[], bool], seconds: float = PATIENCE / 1000) -> bool:
    """Return True as soon as a condition holds, False if it does not within some seconds."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        page.wait_for_timeout(50)
    return True
