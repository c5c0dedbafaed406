"""Screenshots of the web page for README and docs, in the system's Chromium.

    python docs/screenshots.py

Starts a server of its own on loopback; needs the dev tools and Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent
SIZE: Any = {"width": 1080, "height": 760}


def shoot_2048(page: Any, address: str) -> None:
    """Play up to a 2048 tile, and show a hint with its tree."""
    page.goto(f"{address}#2048")
    page.wait_for_selector("body[data-ready='2048']")
    page.get_by_label("Speed").fill("4")
    page.get_by_label("seed", exact=True).fill("2048")
    page.get_by_role("button", name="New game").click()
    page.get_by_role("button", name="Run").click()
    page.locator("button.main", has_text="Pause").wait_for()
    page.locator("button.main", has_text="Run").wait_for(timeout=60_000)  # at 2048
    page.get_by_label("Player", exact=True).select_option("mc-softmax")
    page.get_by_label("show lines, outcomes and tree with hints").check()
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector(".tree")
    page.wait_for_timeout(300)
    page.screenshot(
        path=FOLDER / "web_2048.png",
        clip={"x": 0, "y": 0, "width": 1080, "height": 1150},
        full_page=True,
    )


def shoot_daihinmin(page: Any, address: str) -> None:
    """Play to the visitor's first turn, and show a hint."""
    page.goto(f"{address}#daihinmin")
    page.wait_for_selector("body[data-ready='daihinmin']")
    page.get_by_label("Speed").select_option("0")
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("text=Your turn")
    page.keyboard.press("?")
    page.wait_for_selector("text=Hint: ")
    page.wait_for_timeout(300)
    page.screenshot(path=FOLDER / "web_daihinmin.png")


def main() -> None:
    """Start a server and a browser, and write both pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    options: Any = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "afterstate", "web", "--port", "0", "--no-open"]
        command += ["--folder", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split()[0]
                browser = playwright.chromium.launch(executable_path=chromium, args=options)
                page = browser.new_page(viewport=SIZE)
                while not page.request.get(f"{address}api/me").json()["ready"]:
                    page.wait_for_timeout(300)
                shoot_2048(page, address)
                shoot_daihinmin(page, address)
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
