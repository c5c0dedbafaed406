"""Compiled kernels are cached by the hash of all sources.

numba's own cache does not notice an edit in another file, so a cached caller would go on running
the old code of the function it calls.
"""

import hashlib
import os
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_sources = sorted([*_ROOT.glob("envs/**/*.py"), *_ROOT.glob("agents/**/*.py")])
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"afterstate-kernels-{_digest}")
