"""Two machine instructions that table look-ups live on, as functions for numba kernels.

`prefetch` asks for a table entry before it is needed; `extract` gathers the nibbles of a tuple's
cells into an index. Where the processor has no such instruction, `extract` is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from afterstate.envs.words import Word

_WORD = ir.IntType(64)
_INT = ir.IntType(32)


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Generates code for `prefetch`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [address.type, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data_cache = (ir.Constant(_INT, n) for n in (0, 3, 1))
        builder.call(function, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _pext(typing_context: Any, word: Any, mask: Any) -> Any:
    """Generates the instruction PEXT of x86 processors with BMI2."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_WORD, [_WORD, _WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.bmi.pext.64")
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), generate


def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Generates code that counts the zeros below the lowest one; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


prefetch: Any = intrinsic(_prefetch)
"""Starts loading entry `index` of a one-dimensional array into the cache."""

_pack_bits: Any = intrinsic(_pext)
count_zeros: Any = intrinsic(_trailing_zeros)
"""The zeros of a word below its lowest one; 64 for zero."""


@njit("uint64(uint64, uint64)", cache=True)
def extract_by_runs(word: Word, mask: Word) -> Word:
    """The bits of `word` under `mask`, packed together: one shift for each run of ones."""
    word, mask = np.uint64(word), np.uint64(mask)
    packed, length = np.uint64(0), np.uint64(0)
    while mask != 0:
        first = count_zeros(mask)
        beyond = mask + (np.uint64(1) << first)  # the carry runs past the run of ones
        run = mask & ~beyond
        packed |= (word & run) >> (first - length)
        length += count_zeros(~(run >> first))
        mask &= beyond
    return packed


HAS_PEXT: bool = (
    llvm.get_host_cpu_features().get("bmi2", False)
    and config.CPU_NAME is None  # type: ignore[attr-defined]
    and config.CPU_FEATURES is None  # type: ignore[attr-defined]
)
"""Whether kernels are compiled for a processor with PEXT."""

extract: Callable[[Word, Word], Word] = _pack_bits if HAS_PEXT else extract_by_runs
"""The bits of a word under a mask, packed together."""
