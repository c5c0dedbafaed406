"""Options and machine instructions that the numba kernels of 2048 share.

`KERNEL` and `INLINED` are arguments of `numba.njit`; `kernel` and `inlined` are decorators with
them, for functions that are compiled for each type of their arguments. `prefetch` loads a table
entry into the cache before it is needed; `pack_bits` is the processor's instruction PEXT, if it has
one. `hash_board` is for hash tables of boards.

Kernels check nothing: an index out of range or an array that is too short is read and written
beyond its end. Classes such as `NTupleAgent` and `NTupleLearner` check what they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from afterstate.envs.words import Word

KERNEL: dict[str, Any] = {"cache": True, "_nrt": False}
"""Arguments of `njit` for kernels that allocate nothing: without reference counting, which would
cost more than a table look-up."""

INLINED: dict[str, Any] = {**KERNEL, "forceinline": True}
"""Arguments of `njit` for tiny kernels: passing a network to a call costs more than its body."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile a function when it is first called; other Python threads run meanwhile."""
    compiled: _Function = njit(**KERNEL, nogil=True)(function)
    return compiled


def inlined(function: _Function) -> _Function:
    """Compile a function into those that call it."""
    compiled: _Function = njit(**INLINED)(function)
    return compiled


@inlined
def hash_board(board: Word) -> Word:
    """Return a word whose low bits depend on all cells of a board, for hash tables."""
    board = (board ^ board >> np.uint64(32)) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return board ^ board >> np.uint64(32)


_WORD = ir.IntType(64)
_INT = ir.IntType(32)


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Generate the code of `prefetch`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [address.type, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data_cache = (ir.Constant(_INT, n) for n in (0, 3, 1))
        builder.call(function, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _pext(typing_context: Any, word: Any, mask: Any) -> Any:
    """Generate the instruction PEXT of x86 processors with BMI2."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_WORD, [_WORD, _WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.bmi.pext.64")
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), generate


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Generate the code of `trailing_zeros`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


prefetch: Any = intrinsic(_prefetch)
"""Start loading entry `index` of a one-dimensional array into the cache."""

pack_bits: Any = intrinsic(_pext)
"""Return the bits of a word under a mask, packed into the low bits; only if `HAS_FAST_PEXT`."""

trailing_zeros: Any = intrinsic(_trailing_zeros)
"""Return the number of zeros below a word's lowest one; 64 for zero."""


HAS_FAST_PEXT: bool = (
    llvm.get_host_cpu_features().get("bmi2", False)
    and llvm.get_host_cpu_name() not in ("znver1", "znver2")  # in microcode, bit by bit
    and config.CPU_NAME is None  # type: ignore[attr-defined]
    and config.CPU_FEATURES is None  # type: ignore[attr-defined]
)
"""True if kernels are compiled for a processor with PEXT as a fast instruction."""
