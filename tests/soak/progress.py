"""Amounts that progress bars of tqdm have shown in the output of a program."""

from __future__ import annotations

import math
import re

_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def bar(unit: str) -> re.Pattern[str]:
    """Return the pattern of a progress bar of `unit`, with its amount and that amount's scale."""
    return re.compile(rf"\b(\d+(?:\.\d+)?)([kMGT]?)/\S+ \[[^]\r\n]*{unit}")


def shown(output: str, unit: str) -> int:
    """Return the least amount that the last progress bar of a unit may stand for; 0 without one.

    >>> shown(" 1%|  | 1.23M/10.0T [00:12<7:51, 369 moves/s]", "moves")
    1225000
    >>> shown("99%|# | 202/205 [00:15<00:01, 1.91 chunks/s]", "chunks")
    202
    """
    amounts = bar(unit).findall(output)
    if not amounts:
        return 0
    number, scale = amounts[-1]
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return math.ceil((float(number) - half) * _SCALES[scale])
