"""What the commands have in common: a number above 0, and a bar for what takes some seconds."""

from __future__ import annotations

import argparse
import math
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


def above_0(text: str) -> float:
    """A finite number above 0, of the command line.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"it is a number above 0, not {text!r}")
    return number
