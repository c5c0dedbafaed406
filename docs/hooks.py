"""MkDocs hooks: files of the repository that pages link to become part of the site.

Pages link to code, results and figures by relative paths, which also work in a repository viewer.
On the site,

- a `.md` file outside `docs` becomes a page, and its links are followed in turn,
- a `.py` file becomes a page with its source, a folder a page that lists its files,
- any other file, such as a figure or a table of results, is copied.

All of them are below `repository/`, except for the contributing guide and the changelog.

In the reference, doctests of docstrings become blocks of code (`Doctests`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RENAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files of the repository's root that have a page of their own on the site."""

_LINK = re.compile(r"(\]\()([^)\s#]+)?(#[^)\s]*)?(\))")
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_origins: dict[str, Path] = {}  # of the added pages, by their path on the site


class Doctests(griffe.Extension):
    """Fences doctests, which Markdown takes for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the doctests of a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub("```pycon\n\\g<0>\n```", obj.docstring.value)


def on_files(files: Files, config: Any) -> Files:
    """Add the files of the repository that pages link to, directly or through others."""
    _origins.clear()
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    waiting += [ROOT / name for name in RENAMED if name != "README.md"]
    seen = set(waiting)
    for path in waiting:
        if not path.is_relative_to(DOCS):
            _add(files, config, path)
        for target in _targets(path):
            if target not in seen and not target.is_relative_to(DOCS):
                seen.add(target)
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point the links of a page to the pages and files of the site."""
    uri = page.file.src_uri
    origin = _origins.get(uri, DOCS / uri)
    if uri in _origins:  # results and notes are found behind the pages of docs
        page.meta.setdefault("search", {"boost": 0.5})
    if origin.suffix != ".md":
        return markdown
    return _outside_of_code(markdown, lambda text: _relinked(text, origin, uri))


def site_path(path: Path) -> str:
    """Return the path on the site of a file or a folder of the repository."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if name in RENAMED:
        return RENAMED[name]
    if path.is_dir():
        return f"repository/{name}/{'README' if (path / 'README.md').exists() else 'index'}.md"
    return f"repository/{name}{'.md' if path.suffix == '.py' else ''}"


def _add(files: Files, config: Any, path: Path) -> None:
    """Add a file or a folder of the repository to the site."""
    uri = site_path(path)
    if uri in files.src_uris:
        return
    if uri.endswith(".md"):
        _origins[uri] = path
        files.append(File.generated(config, uri, content=_page(path)))
    else:
        files.append(File.generated(config, uri, abs_src_path=str(path)))


def _page(path: Path) -> str:
    """Return the page of a Markdown file, a source file or a folder."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    head = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if path.is_dir():
        return head + "\n".join(f"- [{each.name}]({each.name}.md)" for each in _sources(path))
    return f"{head}````python\n{path.read_text(encoding='utf-8')}````\n"


def _sources(folder: Path) -> list[Path]:
    """Return the Python files of a folder."""
    return sorted(each for each in folder.iterdir() if each.suffix == ".py")


def _targets(path: Path) -> list[Path]:
    """Return the files and folders of the repository that a page links to."""
    if path.is_dir():
        readme = path / "README.md"
        return [readme] if readme.exists() else _sources(path)
    if path.suffix != ".md":
        return []
    found: list[Path] = []

    def find(text: str) -> str:
        links = (_resolve(path, match[2]) for match in _LINK.finditer(text) if match[2])
        found.extend(link for link in links if link is not None)
        return text

    _outside_of_code(path.read_text(encoding="utf-8"), find)
    return found


def _resolve(page: Path, link: str) -> Path | None:
    """Return the file or folder of the repository that a link of a page leads to, or None."""
    if re.match(r"[a-z]+:", link):
        return None
    target = Path(os.path.normpath(page.parent / link))
    return target if target.is_relative_to(ROOT) and target.exists() else None


def _relinked(text: str, origin: Path, uri: str) -> str:
    """Return a text whose links lead to the site."""

    def relink(match: re.Match[str]) -> str:
        target = _resolve(origin, match[2]) if match[2] else None
        if target is None:
            return match[0]
        path = os.path.relpath(site_path(target), os.path.dirname(uri))
        return f"{match[1]}{Path(path).as_posix()}{match[3] or ''}{match[4]}"

    return _LINK.sub(relink, text)


def _outside_of_code(markdown: str, change: Any) -> str:
    """Return a page of which a function has changed all but the blocks of code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])
