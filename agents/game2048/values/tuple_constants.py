"""The tuples of a network as constants of the kernels that are compiled for it.

A kernel that adds up table entries is faster if the compiler knows the tuples: loops over them are
unrolled, and masks and table starts become part of the instructions. numba compiles a kernel once
for each type of its arguments and keeps the result on disk. So a set of tuples has a *class* of its
own, derived from `ntuple_network.Network`, whose attribute `compiled_masks` holds their masks, and
whose attributes `compiled_fixed` and `compiled_pruned` are True for fixed-point weights and for
pruned networks: in kernels for this class the functions below are constants. In kernels for
`Network` itself, which has no such attribute, they read the network's arrays. Both kinds are
compiled from one source and add up the same entries in the same order.

Networks without symmetry have no class of their own. numba's cache names the classes, so a class
must lie in a module that every program with the same cache can import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_INT = ir.IntType(64)

_Generate = Callable[[Any, Any, Any, Any], Any]


def _compiled_masks(kind: Any) -> tuple[int, ...]:
    """Return the masks of a network's numba type, none for tuples that are not constants."""
    return getattr(kind.instance_class, "compiled_masks", ())


def _array(name: str, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return an array of a network, as code sees it."""
    kind = signature.args[0]
    at = kind.instance_class._fields.index(name)
    return make_array(kind.types[at])(context, builder, builder.extract_value(args[0], at))


def _element(kind: Any, name: str, constants: Sequence[int]) -> _Generate:
    """Return the generator of code that reads element `t` of an array, or of the constants."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not _compiled_masks(kind):
            data = _array(name, context, builder, signature, args).data
            return builder.load(builder.gep(data, [args[1]]))
        numbers = ir.Constant(ir.ArrayType(_INT, len(constants)), list(constants))
        place = cgutils.global_constant(builder.module, name, numbers)
        return builder.load(builder.gep(place, [ir.Constant(_INT, 0), args[1]]))

    return generate


def _has_constants(typing_context: Any, net: Any) -> Any:
    """Generate the code of `has_constants`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(bool(_compiled_masks(net))))

    return types.boolean(net), generate


def _has(attribute: str) -> Callable[..., Any]:
    """Return the generator of a constant: whether a network's class has an attribute."""

    def of_class(typing_context: Any, net: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return ir.Constant(ir.IntType(1), int(getattr(net.instance_class, attribute, False)))

        return types.boolean(net), generate

    return of_class


def _called_if_generic(typing_context: Any, net: Any) -> Any:
    """Generate no code, but change the attributes of the function."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not _compiled_masks(net):
            builder.function.attributes.discard("alwaysinline")
            builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(net), generate


def _n_tuples(typing_context: Any, net: Any) -> Any:
    """Generate the code of `n_tuples`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if masks := _compiled_masks(net):
            return ir.Constant(_INT, len(masks))
        shape = _array("masks", context, builder, signature, args).shape
        return builder.extract_value(shape, 0)

    return types.int64(net), generate


def _tuple_mask(typing_context: Any, net: Any, t: Any) -> Any:
    """Generate the code of `tuple_mask`."""
    return types.uint64(net, types.int64), _element(net, "masks", _compiled_masks(net))


def _table_start(typing_context: Any, net: Any, t: Any) -> Any:
    """Generate the code of `table_start`."""
    lengths = [16 ** (mask.bit_count() // 4) for mask in _compiled_masks(net)]
    starts = [0, *accumulate(lengths[:-1])]
    return types.uint64(net, types.int64), _element(net, "starts", starts)


has_constants: Any = intrinsic(_has_constants)
"""Return True if the tuples of a network are constants."""

is_compiled_fixed: Any = intrinsic(_has("compiled_fixed"))
"""Return True if kernels are compiled for fixed-point weights; False for any generic network."""

is_compiled_pruned: Any = intrinsic(_has("compiled_pruned"))
"""Return True if kernels are compiled for a pruned network; False for any generic network."""

called_if_generic: Any = intrinsic(_called_if_generic)
"""Let a kernel be called, not inlined, for tuples that are not constants: `called_if_generic(net)`.

Inlined in the many places that use them, their loops would take a minute to compile.
"""

n_tuples: Any = intrinsic(_n_tuples)
"""Return the number of tuples of a network."""

tuple_mask: Any = intrinsic(_tuple_mask)
"""Return the mask of tuple `t` of a network: `tuple_mask(net, t)`."""

table_start: Any = intrinsic(_table_start)
"""Return the index of the table of tuple `t` in its stage: `table_start(net, t)`."""
