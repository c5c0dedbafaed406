"""The progress bars of the commands that take longer than some seconds."""

from __future__ import annotations

from typing import Any


def progress_bar() -> Any:
    """The bar of tqdm, which comes with an extra.

    Raises:
        SystemExit: tqdm is not installed.
    """
    try:
        from tqdm import tqdm
    except ImportError as error:
        message = 'the progress bar needs tqdm: pip install "afterstate[train]"'
        raise SystemExit(message) from error
    return tqdm
