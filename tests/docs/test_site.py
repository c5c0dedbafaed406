"""The site: it builds without a warning and loads nothing from other places."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tests.docs.run_page import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings_handlers")
pytestmark = pytest.mark.slow  # `.ci/run` builds the site, too


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_load_nothing_from_other_places(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"?(https?:[^\s\">]+)", text)
        loaded += re.findall(r"<link[^>]* rel=\"?stylesheet[^>]* href=\"?(https?:[^\s\">]+)", text)
        assert loaded == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\"?https?:|@import", sheet.read_text(encoding="utf-8")), sheet


def test_doctests_of_the_reference_are_code(site: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in (site / "api").rglob("index.html")]
    assert any('<span class="gp">' in text for text in texts)
    assert [text.count("<blockquote>") for text in texts] == [0] * len(texts)


def test_pages_link_to_the_repository(site: Path) -> None:
    urls = (each.split(", ") for each in metadata("afterstate").get_all("Project-URL") or [])
    homepage = dict(urls)["Homepage"]
    for page in ("index.html", "players/index.html"):
        text = (site / page).read_text(encoding="utf-8")
        assert re.search(rf'<a href="?{homepage}"? [^>]*class="?md-social__link', text), page
        assert "data-md-component=source" not in text.replace('"', "")


def test_pictures_of_pages_are_small(site: Path) -> None:
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 60_000, picture
