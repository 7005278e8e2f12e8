"""Evaluates nodes on NumPy lane arrays: the reference meaning of every operation.

A value is an array of unsigned elements, one for a scalar. Each operation views it as its own element type. Integers
wrap; shifts by the width or more give zeros (copies of the sign for the arithmetic one); x / 0 and x % 0 are 0; a float
to integer conversion saturates. Floats are IEEE, rounded once an operation, denormals kept; arithmetic gives one NaN,
positive and quiet with nothing else in its fraction, as what it keeps of its operands' bits is the host's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from dspgen.sim.ir.exact_floats import fused, rounded_to_8_bits, to_integer
from dspgen.sim.ir.program import Node

ONE_NAN = frozenset(
    {"add", "sub", "mul", "mac", "msub", "nmac", "div", "sqrt", "rcp_est", "rsqrt_est", "reduce_add", "reduce_mul"}
    | {"all_add", "cvt_f32_f64", "cvt_f64_f32"}
)
# The same bits of integers, whether these are read with a sign or without.
_SIGNLESS = frozenset({"add", "sub", "mul", "mac", "msub", "nmac", "neg", "and", "or", "xor", "not", "mov"})
Array = Any  # a NumPy array; the element type follows the node
DType = np.dtype[Any]
Thunk = Callable[[], Array]


class State(Protocol):
    """What a node may read: register cells, the effective address, memory through it."""

    registers: list[Array]
    forwarded: dict[int, Array]  # what its packet writes, by cells
    held: dict[tuple[int, int], Array]  # what an instruction has read at its cycles: (cell, cycle from issue)
    address: int

    def gather(self, size: int, lanes: int, stride: int, first: int) -> Array: ...

    def gather_at(self, size: int, index: Array) -> Array: ...

    def patterns(self, address: int, count: int) -> Array: ...


@cache
def dtype(elem: str) -> DType:
    return np.dtype(f"{elem[0]}{int(elem[1:]) // 8}")


def unsigned(elem: str) -> DType:
    return unsigned_of(int(elem[1:]) // 8)


@cache
def unsigned_of(size: int) -> DType:
    """The type of unsigned elements of so many bytes."""
    return np.dtype(f"u{size}")


def compile_node(node: Node, state: State) -> Thunk:
    """A function that gives the node's value in the present state."""
    registers, raw = state.registers, unsigned(node.elem)
    match node.op:
        case "const":
            constant = np.array([node.value], dtype=raw)
            return lambda: constant
        case "read" if node.imm:
            key = (node.value, node.imm[0])
            return lambda: state.held[key]
        case "read_lane" if len(node.imm) > 1:
            lane, key = node.imm[0], (node.value, node.imm[1])
            return lambda: state.held[key][lane : lane + 1]
        case "read":
            return lambda: registers[node.value]
        case "new":
            return lambda: state.forwarded[node.value]
        case "read_lane":
            lane = node.imm[0]
            return lambda: registers[node.value][lane : lane + 1]
        case "address":
            return lambda: np.array([state.address], dtype=np.uint64)
        case "load":
            stride, first = node.imm
            return lambda: state.gather(node.width // 8, max(node.lanes, 1), stride, first)
        case "gather":
            index = compile_node(node.args[0], state)
            return lambda: state.gather_at(node.width // 8, index().view("i4"))
        case "perm":
            return _compile_perm(node, state)
    args = [compile_node(a, state) for a in node.args]
    if node.op in STRUCTURAL:
        return _bind(STRUCTURAL[node.op](node), args)
    return _bind(_typed(node), args)


def _bind(function: Callable[..., Array], args: Sequence[Thunk]) -> Thunk:
    if len(args) == 1:
        (only,) = args
        return lambda: function(only())
    if len(args) == 2:
        first, second = args
        return lambda: function(first(), second())
    return lambda: function(*[a() for a in args])


def _compile_perm(node: Node, state: State) -> Thunk:
    first, second, mode = (compile_node(a, state) for a in node.args)
    stride = node.imm[0]

    def run() -> Array:
        table = np.concatenate([first(), second()])
        picks = state.patterns(node.value + stride * int(mode()[0]), node.lanes)
        return np.where(picks & 0x80, 0, table[picks % len(table)]).astype(table.dtype)

    return run


def _typed(node: Node) -> Callable[..., Array]:
    """An operation on typed views, its result viewed as unsigned again."""
    views = [dtype(a.elem) for a in node.args]
    result, raw = dtype(node.elem), unsigned(node.elem)
    operation = OPERATIONS[node.op]
    imm = node.imm
    if not node.args:
        constant = operation(node.lanes, *imm).astype(result).view(raw)
        return lambda: constant
    elems = (node.elem, *(a.elem for a in node.args))
    if node.op in _SIGNLESS and all(e[0] != "f" and unsigned(e) == raw for e in elems):
        return operation

    def run(*args: Array) -> Array:
        typed = [a.view(v) for a, v in zip(args, views, strict=True)]
        return operation(*typed, *imm).astype(result, copy=False).view(raw)

    def run_float(*args: Array) -> Array:
        value = run(*args).view(result)
        nan = np.isnan(value)
        return (np.where(nan, np.array([np.nan], dtype=result), value) if nan.any() else value).view(raw)

    return run_float if node.op in ONE_NAN and node.elem[0] == "f" else run


def _cast(node: Node) -> Callable[[Array], Array]:
    (arg,) = node.args
    sign = node.elem[0] == "i" and arg.elem[0] == "i"
    source = dtype(arg.elem) if sign else unsigned(arg.elem)
    target = dtype(node.elem) if sign else unsigned(node.elem)
    raw = unsigned(node.elem)
    return lambda a: a.view(source).astype(target).view(raw)


def _extend(node: Node) -> Callable[[Array], Array]:
    bits, width, signed = node.imm[0], node.width, node.op == "sext"
    if bits >= width:
        return lambda a: a
    kind = f"{'i' if signed else 'u'}{width // 8}"
    up, raw = np.array([width - bits], dtype=unsigned(node.elem)), unsigned(node.elem)
    return lambda a: ((a << up).view(kind) >> up.view(kind)).view(raw)


def _bits(node: Node) -> Callable[[Array], Array]:
    high, low = node.imm
    mask = np.array([(1 << (high - low + 1)) - 1], dtype=unsigned(node.elem))
    shift = np.array([low], dtype=unsigned(node.elem))
    return lambda a: (a >> shift) & mask


def _cat(node: Node) -> Callable[[Array, Array], Array]:
    half, wide = node.args[0].width, unsigned(node.elem)
    shift = np.array([half], dtype=wide)
    return lambda low, high: low.astype(wide) | (high.astype(wide) << shift)


def _half(node: Node) -> Callable[[Array], Array]:
    shift = np.array([node.width if node.op == "hi" else 0], dtype=unsigned(node.args[0].elem))
    raw = unsigned(node.elem)
    return lambda a: (a >> shift).astype(raw)


def _set_high(node: Node) -> Callable[[Array, Array], Array]:
    kind = np.dtype(unsigned(node.elem)).type
    keep = kind(~0xFFFF0000 & ((1 << node.width) - 1))
    return lambda a, b: (a & keep) | ((b & kind(0xFFFF)) << kind(16))


STRUCTURAL: dict[str, Callable[[Node], Callable[..., Array]]] = {
    "cast": _cast,
    "retag": lambda node: lambda a: a,
    "view": lambda node: lambda a: np.ascontiguousarray(a).view(unsigned(node.elem)),
    "splat": lambda node: lambda a: np.repeat(a, node.lanes),
    "cat": _cat,
    "lo": _half,
    "hi": _half,
    "sext": _extend,
    "zext": _extend,
    "bits": _bits,
    "set_high": _set_high,
}


def _is_float(a: Array) -> bool:
    return bool(a.dtype.kind == "f")


def _mac(a: Array, b: Array, c: Array) -> Array:
    return fused(a, b, c) if _is_float(a) else a * b + c


def _minimum(a: Array, b: Array) -> Array:
    return np.where((a < b) | _nan(b), a, b)


def _maximum(a: Array, b: Array) -> Array:
    return np.where((a > b) | _nan(b), a, b)


def _nan(a: Array) -> Array:
    return a != a


def _absolute(a: Array) -> Array:
    return np.where(a < 0, -a, a) if not _is_float(a) else np.abs(a)


def _quotient(a: Array, b: Array) -> Array:
    if _is_float(a):
        return a / b
    sign = np.where((a < 0) != (b < 0), -1, 1).astype(a.dtype)
    return np.where(b == 0, 0, _magnitude(a, b, np.floor_divide) * sign).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    sign = np.where(a < 0, -1, 1).astype(a.dtype)
    return np.where(b == 0, 0, _magnitude(a, b, np.remainder) * sign).astype(a.dtype)


def _magnitude(a: Array, b: Array, operation: Callable[[Array, Array], Array]) -> Array:
    kind = unsigned_of(a.dtype.itemsize)
    divisor = np.where(b == 0, 1, _absolute(b)).astype(a.dtype).view(kind)
    return operation(_absolute(a).astype(a.dtype).view(kind), divisor).view(a.dtype)


def _mulhi(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.array([(int(x) * int(y)) >> bits for x, y in zip(a, b, strict=True)], dtype=object).astype(a.dtype)


def _shift(a: Array, b: Array, left: bool, arithmetic: bool) -> Array:
    bits = 8 * a.dtype.itemsize
    amount = b.view(unsigned_of(a.dtype.itemsize))
    large = amount >= bits
    safe = np.where(large, 0, amount).astype(amount.dtype)
    if left:
        return np.where(large, 0, a.view(amount.dtype) << safe).astype(amount.dtype).view(a.dtype)
    if arithmetic and a.dtype.kind == "i":
        return a >> np.where(large, bits - 1, amount).astype(a.dtype)
    return np.where(large, 0, a.view(amount.dtype) >> safe).astype(amount.dtype).view(a.dtype)


def _clamped(a: Array, low: int, high: int) -> Array:
    return np.clip(a, low, high)


def _between(a: Array, low: int, high: int) -> Array:
    return (low <= a) & (a < high)


def _narrow(kind: str) -> Callable[[Array], Array]:
    return lambda a: a.astype(kind)


def _insert(a: Array, b: Array, lane: int) -> Array:
    out = a.copy()
    out[lane % len(a)] = b[0]
    return out


def _total(a: Array) -> Array:
    out = a[:1].copy()
    for k in range(1, len(a)):
        out = out + a[k : k + 1]
    return out


def _fold(choose: Callable[[Array, Array], Array]) -> Callable[[Array], Array]:
    def run(a: Array) -> Array:
        out = a[:1]
        for k in range(1, len(a)):
            out = choose(out, a[k : k + 1])
        return out

    return run


def _interleave(a: Array, b: Array) -> Array:
    return np.stack([a, b], axis=1).reshape(-1)


def _reciprocal_root(a: Array) -> Array:
    return rounded_to_8_bits((1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype))


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mac": _mac,
    "msub": lambda a, b, c: fused(a, b, -c) if _is_float(a) else a * b - c,
    "nmac": lambda a, b, c: fused(-a, b, c) if _is_float(a) else c - a * b,
    "neg": lambda a: -a,
    "abs": _absolute,
    "min": _minimum,
    "max": _maximum,
    "div": _quotient,
    "mod": _remainder,
    "sqrt": np.sqrt,
    "rcp_est": lambda a: rounded_to_8_bits(a.dtype.type(1) / a),
    "rsqrt_est": _reciprocal_root,
    "mac16": lambda a, b, c: a.astype("i2").astype(a.dtype) * b.astype("i2").astype(a.dtype) + c,
    "mul16": lambda a, b: a.astype("i2").astype(a.dtype) * b.astype("i2").astype(a.dtype),
    "add_sat": lambda a, b: _clamped(a.astype("i8") + b.astype("i8"), -(1 << 31), (1 << 31) - 1),
    "sub_sat": lambda a, b: _clamped(a.astype("i8") - b.astype("i8"), -(1 << 31), (1 << 31) - 1),
    "sat8": lambda a: _clamped(a, -(1 << 7), (1 << 7) - 1),
    "sat16": lambda a: _clamped(a, -(1 << 15), (1 << 15) - 1),
    "satu8": lambda a: _clamped(a, 0, (1 << 8) - 1),
    "satu16": lambda a: _clamped(a, 0, (1 << 16) - 1),
    "mulhi": _mulhi,
    "shl": lambda a, b: _shift(a, b, True, False),
    "shr": lambda a, b: _shift(a, b, False, True),
    "shru": lambda a, b: _shift(a, b, False, False),
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
    "le": lambda a, b: a <= b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "sext8": _narrow("i1"),
    "sext16": _narrow("i2"),
    "zext8": _narrow("u1"),
    "zext16": _narrow("u2"),
    "cvt_i32_f32": lambda a: a,
    "cvt_u32_f32": lambda a: a,
    "cvt_i32_f64": lambda a: a,
    "cvt_f32_i32": lambda a: to_integer(a, 32),
    "cvt_f64_i32": lambda a: to_integer(a, 32),
    "cvt_f32_f64": lambda a: a,
    "cvt_f64_f32": lambda a: a,
    "and": lambda a, b: a.view(unsigned_of(a.itemsize)) & b.view(unsigned_of(a.itemsize)),
    "or": lambda a, b: a.view(unsigned_of(a.itemsize)) | b.view(unsigned_of(a.itemsize)),
    "xor": lambda a, b: a.view(unsigned_of(a.itemsize)) ^ b.view(unsigned_of(a.itemsize)),
    "not": lambda a: ~a.view(unsigned_of(a.itemsize)),
    "select": lambda a, b, c: np.where(a != 0, b, c),
    "mov": lambda a: a,
    "iota": lambda lanes: np.arange(lanes),
    "mask_first": lambda lanes, count: np.arange(lanes) < count,
    "mask_period": lambda lanes, period, low, high: _between(np.arange(lanes) % period, low, high),
    "shuffle": lambda a, *pattern: a[np.maximum(pattern, 0)],
    "shuffle2": lambda a, b, *pattern: np.concatenate([a, b])[np.maximum(pattern, 0)],
    "transpose": lambda a, rows: a.reshape(rows, -1).T.ravel(),
    "concat": lambda a, b, count: np.concatenate([a[:count], b[: len(a) - count]]),
    "all_add": lambda a: np.repeat(_total(a), len(a)),
    "all_min": lambda a: np.repeat(_fold(_minimum)(a), len(a)),
    "all_max": lambda a: np.repeat(_fold(_maximum)(a), len(a)),
    "reduce_mul": _fold(lambda a, b: a * b),
    "reduce_and": _fold(lambda a, b: a & b),
    "reduce_or": _fold(lambda a, b: a | b),
    "reduce_xor": _fold(lambda a, b: a ^ b),
    "lane": lambda a, k: a[k % len(a) : k % len(a) + 1],
    "insert": _insert,
    "dup_lane": lambda a, k: np.repeat(a[k % len(a)], len(a)),
    "align": lambda a, b, k: np.concatenate([a, b])[k : k + len(a)],
    "even": lambda a, b: np.concatenate([a, b])[0::2],
    "odd": lambda a, b: np.concatenate([a, b])[1::2],
    "zip_lo": lambda a, b: _interleave(a, b)[: len(a)],
    "zip_hi": lambda a, b: _interleave(a, b)[len(a) :],
    "reverse": lambda a: a[::-1].copy(),
    "rotate": lambda a, x: np.roll(a, -int(x[0])),
    "slide": lambda a, b, x: np.concatenate([a, b])[int(x[0]) % len(a) :][: len(a)],
    "reduce_add": _total,
    "reduce_min": _fold(_minimum),
    "reduce_max": _fold(_maximum),
}
