"""The links of all pages lead somewhere, those to other places only to known hosts."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.run_page import ROOT

HOSTS = {
    "arxiv.org",
    "docs.ray.io",
    "doi.org",
    "github.com",
    "gymnasium.farama.org",
    "ipsj.ixsq.nii.ac.jp",
    "keepachangelog.com",
    "pettingzoo.farama.org",
    "pytorch.org",
    "raw.githubusercontent.com",
    "semver.org",
}
"""Hosts of links to other places."""
CODE = ("agents", "app", "envs")
"""Folders that are elsewhere when the wheel is tested."""
PAGES = [
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    ROOT / "benchmarks" / "NOTES.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks" / "results").rglob("*.md")),
]


def _text(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", _text(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)]+)?\)", _text(page)):
        target = page.parent / path if path else page
        inside = target.resolve().relative_to(ROOT)
        if inside.parts[0] in CODE and not (ROOT / "Makefile").exists():
            continue
        assert target.exists(), path
        if anchor.startswith("#afterstate."):
            documented = re.findall(r"^::: (\S+)", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert any(f"{anchor[1:]}.".startswith(f"{name}.") for name in documented), anchor
        elif anchor:
            assert anchor[1:] in _anchors(target), f"{path}{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_this_repository_lead_somewhere(page: Path) -> None:
    """Links of the README are absolute, for a package index."""
    home = r"https://(?:github|raw\.githubusercontent)\.com/afterstate/afterstate"
    for path, anchor in re.findall(
        rf"{home}/(?:blob/|tree/|)main/([^)#\s]+)(#[^)]+)?\)", _text(page)
    ):
        target = ROOT / path
        assert target.exists() or Path(path).parts[0] in CODE, path
        if anchor:
            assert anchor[1:] in _anchors(target), f"{path}{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_places_are_secure_and_of_known_hosts(page: Path) -> None:
    for link in re.findall(r"https?://[^\s)\"'`>]+", _text(page)):
        assert urlsplit(link).scheme == "https", link
        assert urlsplit(link).hostname in HOSTS, link
