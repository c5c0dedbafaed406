"""Import this before numba: compiled kernels are then cached by the hash of the package's sources.

numba's own cache does not notice an edit in another file: after a change to a kernel, its cached
callers would still run the old code. Sources that only use torch are left out of the hash.
"""

import hashlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path


def _digest() -> str:
    """Return a hash of the installed package's source files that numba may compile."""
    digest = hashlib.sha256()
    for name in ("afterstate.envs", "afterstate.agents"):
        spec = find_spec(name)
        assert spec is not None and spec.submodule_search_locations, f"{name} is not installed"
        for path in sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")):
            source = path.read_bytes()
            if b"import torch" not in source or b"numba" in source:
                digest.update(source)
    return digest.hexdigest()[:16]


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"afterstate-{_digest()}")
