"""Progress bars of tqdm, imported when the first one is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from tqdm import tqdm

T = TypeVar("T")


@overload
def progress_bar(items: None = None, *, unit: str, **options: Any) -> tqdm[Any]: ...
@overload
def progress_bar(items: Iterable[T], *, unit: str, **options: Any) -> tqdm[T]: ...
def progress_bar(items: Any = None, *, unit: str, **options: Any) -> tqdm[Any]:
    """Return a progress bar that writes its rate as `5.00 moves/s` or `1.25s/moves`.

    Args:
        items: what it iterates over; None: its `update` is called.
        unit: name of a step, in the plural.
        options: further options of tqdm.
    """
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        @staticmethod
        def format_meter(*args: Any, **kwargs: Any) -> str:
            return tqdm.format_meter(*args, **kwargs).replace("s/ ", "s/")

    return Bar(items, unit=f" {unit}", **options)
