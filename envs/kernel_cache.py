"""The cache of compiled kernels on disk: kernels are compiled again if their sources change.

numba looks at a kernel's own file alone. After an edit, or an upgrade of the package, a kernel from
the cache would still have the old code of those that it calls in other files. Here the names of
its cached files have a hash of its module and of all modules of the package that this one imports,
directly or not. Files with another hash are removed, since they will not be read again. This is so
where the sources are files, and unless NUMBA_CACHE_LOCATOR_CLASSES names other places.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba.core import caching

PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^ *from ({PACKAGE}[\w.]*) import (\([^)]*\)|.*)|^ *import ({PACKAGE}[\w.]+)", re.M
)


@cache
def _folder(package: str) -> Path | None:
    """Return the folder of `afterstate.envs` or another part of the package."""
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


@cache
def _file(module: str) -> Path | None:
    """Return the file of a module of the package, None for a folder or another name."""
    _, *parts = module.split(".")
    folder = _folder(f"{PACKAGE}.{parts[0]}") if parts else None
    file = None if folder is None else folder.joinpath(*parts[1:]).with_suffix(".py")
    return file if file is not None and file.is_file() else None


@cache
def _imports(module: str) -> tuple[bytes, frozenset[str]]:
    """Return the source of a module, and the modules of the package that it imports."""
    file = _file(module)
    source = b"" if file is None else file.read_bytes()
    imported: set[str] = set()
    for parent, names, alone in _IMPORT.findall(source.decode()):
        imported |= {alone or parent, *(f"{parent}.{name}" for name in re.findall(r"\w+", names))}
    return source, frozenset(name for name in imported if _file(name) is not None)


@cache
def digest(module: str) -> str:
    """Return a hash of the sources of a module and of all that it imports of the package."""
    modules, left = set[str](), {module}
    while left:
        modules |= left
        left = {name for each in left for name in _imports(each)[1]} - modules
    total = hashlib.sha256()
    for name in sorted(modules):
        total.update(name.encode() + b"\0" + _imports(name)[0])
    return total.hexdigest()[:16]


@cache
def _remove_old(folder: Path, stem: str, of_now: str) -> None:
    """Remove the cached files of a module's kernels that have another hash of their sources."""
    for file in folder.glob(f"{stem}.*.nb[ci]"):
        if of_now not in file.name:
            with suppress(OSError):  # another process may have removed it
                file.unlink()


class KernelLocator:
    """Places of numba's cache for the kernels of this package, which numba asks for first."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        """Return the place that numba has for a kernel, with the hash in the names of files."""
        if (function.__module__ or "").partition(".")[0] != PACKAGE:
            return None
        places = (other.from_function(function, file) for other in _LOCATORS if other is not cls)
        place = next((place for place in places if place is not None), None)
        if place is not None:
            of_now = f".{digest(function.__module__)}."
            name = f"{place.get_disambiguator()}{of_now[:-1]}"
            place.get_disambiguator = lambda: name
            _remove_old(Path(place.get_cache_path()), Path(file).stem, of_now)
        return place


_IMPLEMENTATION: Any = getattr(caching, "CacheImpl", None) or getattr(caching, "_CacheImpl")  # noqa: B009
_LOCATORS: list[Any] = _IMPLEMENTATION._locator_classes
_LOCATORS.insert(0, KernelLocator)
