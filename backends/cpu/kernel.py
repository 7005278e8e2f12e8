"""Compiled code, called on NumPy arrays in place."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backends.cpu.build import build, find_compiler, vector_width
from backends.cpu.emit import emit
from backends.cpu.ir.names import symbol
from plant_core.ir.c_semantics import NUMPY, apply_binary, apply_unary, convert, dtype_of, is_float, limits
from plant_core.ir.func import Binary, Buf, Cast, DType, Expr, Func, Param, ScalarParam, Select, Unary, Val
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.scan import scan
from plant_core.support.location import PlantError
from plant_core.support.shared_objects import unload

_C_TYPES: dict[DType, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "i16": ctypes.c_int16,
    "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
}  # fmt: skip


class Kernel:
    """The entry of the shared object at `path`; a call takes the Func's parameters, by position or by name.

    Arrays are NumPy's, C-contiguous, of the parameter's dtype and shape, and are changed in place. `threads`: how many
    threads parallel loops use, None for the runtime's own choice. `source`: the C++ text, where it is known.
    """

    def __init__(self, func: Func, path: Path, *, threads: int | None = None, source: str | None = None) -> None:
        self.func = func
        self.path = path
        self.source = source
        self.threads = threads
        try:
            self._library = ctypes.CDLL(str(path))
            self._entry = self._library[symbol(func)]
        except (OSError, AttributeError) as error:
            raise PlantError(
                f"'{path}' isn't the code of '{func.name}'", code="DG620", remedy="build it again"
            ) from error
        self._entry.restype = None
        self._entry.argtypes = [ctypes.c_void_p if isinstance(p, Buf) else _C_TYPES[p.dtype] for p in func.params]
        # Found through the kernel, which is linked to the runtime that it uses; without parallel loops, to none.
        self._set_threads: Any = getattr(self._library, "omp_set_num_threads", None)
        if self._set_threads is None:  # else the runtime's threads may be in its code as long as this process lives
            weakref.finalize(self, unload, self._library).atexit = False
        self._names = [p.name for p in func.params]
        self._known = frozenset(self._names)
        self._scalars = [p for p in func.params if isinstance(p, ScalarParam)]
        self._arrays = [_Array(p) for p in func.params if isinstance(p, Buf)]

    def __call__(self, *args: Any, **named: Any) -> None:
        given = self._arguments(args, named)
        scalars = {p.name: _number(p, given[p.name]) for p in self._scalars}
        places = []
        passed: dict[str, Any] = scalars.copy()
        for array in self._arrays:
            value = given[array.buf.name]
            array.check(value, scalars)
            start: int = value.__array_interface__["data"][0]  # much quicker than .ctypes
            passed[array.buf.name] = start
            places.append((start, start + value.nbytes, array.buf))
        _check_apart(places)
        if self.threads is not None:
            if self.threads < 1:
                raise PlantError(f"{self.threads} threads can't run anything", code="DG623", remedy="ask for 1 or more")
            if self._set_threads is not None:
                self._set_threads(self.threads)
        self._entry(*[passed[name] for name in self._names])

    def _arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        names = self._names
        given = dict(zip(names, args, strict=False))
        given |= named
        if len(given) == len(args) + len(named) == len(names) and self._known.issuperset(named):
            return given
        call = f"{self.func.name}({', '.join(names)})"
        if len(args) > len(names):
            raise PlantError(f"{len(args)} arguments for {call}", code="DG621")
        for name in named:
            if name not in names or name in names[: len(args)]:
                problem = "twice" if name in names else "which it doesn't have"
                raise PlantError(f"the call gives {call} the parameter '{name}', {problem}", code="DG621")
        missing = [name for name in names if name not in given]
        raise PlantError(f"the call of {call} lacks '{missing[0]}'", code="DG621")


class _Array:
    """An array parameter, and what has to be true of its argument."""

    def __init__(self, buf: Buf) -> None:
        self.buf = buf
        self.dtype = np.dtype(NUMPY[buf.dtype])
        fixed = tuple(n for n in buf.shape if isinstance(n, int))
        self.shape = fixed if len(fixed) == len(buf.shape) else None

    def check(self, value: Any, scalars: dict[str, Any]) -> None:
        """Raises PlantError unless the kernel can work on `value` in place."""
        buf, dtype = self.buf, self.dtype
        shape = self.shape
        if shape is None:
            shape = tuple(n if isinstance(n, int) else extent_of(n, scalars) for n in buf.shape)
        if not isinstance(value, np.ndarray):
            raise self.wrong(f"is a {type(value).__name__}, not a NumPy array", f"pass an array of {dtype}")
        if value.dtype != dtype:
            raise self.wrong(f"is of {value.dtype}, not {dtype}", f"convert it with .astype('{dtype}')")
        if value.shape != shape:
            raise self.wrong(f"has shape {value.shape}, not {shape}", "pass an array of that shape")
        flags = value.flags
        if not flags.c_contiguous or not flags.aligned:
            raise self.wrong("isn't contiguous in memory", "pass np.ascontiguousarray of it")
        if not buf.const and not flags.writeable:
            raise self.wrong("is read-only, and the kernel may write it", "pass a copy")

    def wrong(self, what: str, remedy: str) -> PlantError:
        return PlantError(f"the argument '{self.buf.name}' {what}", loc=self.buf.loc, code="DG622", remedy=remedy)


def _check_apart(places: list[tuple[int, int, Buf]]) -> None:
    """The code relies on it that what it writes is in one array only."""
    for k, (start, end, buf) in enumerate(places):
        for other_start, other_end, other in places[:k]:
            if start < other_end and other_start < end and not (buf.const and other.const):
                raise PlantError(
                    f"the arguments '{other.name}' and '{buf.name}' share memory, and the kernel may write it",
                    loc=buf.loc,
                    code="DG622",
                    remedy="pass a copy of one",
                )


def extent_of(expr: Expr, scalars: dict[str, Any]) -> int:
    """The value of an extent, an integer expression of parameters."""
    match expr:
        case Val(value=number):
            return int(number)
        case Param(name=name):
            return int(scalars[name])
        case Cast(dtype=dtype, operand=operand):
            return int(convert(extent_of(operand, scalars), dtype_of(operand), dtype))
        case Unary(op=op, operand=operand, dtype=dtype):
            return int(apply_unary(op, extent_of(operand, scalars), dtype))
        case Binary(op=op, left=left, right=right):
            return int(apply_binary(op, extent_of(left, scalars), extent_of(right, scalars), dtype_of(left)))
        case Select(condition=condition, true=true, false=false):
            return extent_of(true if extent_of(condition, scalars) else false, scalars)
        case _:
            raise PlantError("an extent isn't an expression of integer parameters", code="DG205")


def _number(param: ScalarParam, value: Any) -> int | float:
    number = value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value
    if isinstance(number, int | float):
        if is_float(param.dtype):
            return float(number)
        low, high = limits(param.dtype)
        if isinstance(number, int) and low <= number <= high:
            return int(number)
    message = f"the argument '{param.name}' is {number!r}, not a number that {param.dtype} holds"
    raise PlantError(message, loc=param.loc, code="DG622")


def compile_cpu(
    program: Func | Scheduled,
    *,
    fp: Literal["reassoc", "strict"] | None = None,
    march: str = "native",
    compiler: str | None = None,
    cache_dir: Path | None = None,
    threads: int | None = None,
    vector_bytes: int | None = None,
) -> Kernel:
    """`program` compiled: a Func in its own order, a Scheduled in its schedule's.

    `fp` is by default what the schedule allows. `threads=1` leaves OpenMP out of the code. `vector_bytes` is the width
    of vectors, by default the widest that the machine has.
    """
    scheduled = as_written(program) if isinstance(program, Func) else program
    rules: Literal["reassoc", "strict"] = fp or ("reassoc" if scheduled.reassoc else "strict")
    width = vector_bytes or vector_width(find_compiler(compiler), march)
    if width not in (8, 16, 32, 64):
        message = f"vectors can't be of {width} bytes"
        raise PlantError(message, code="DG604", remedy="ask for 16, 32 or 64, or for nothing")
    source = emit(scheduled.func, scan(scheduled), fp=rules, vector_bytes=width, threads=threads != 1)
    path = build(source, fp=rules, march=march, compiler=compiler, vector_bytes=width, cache_dir=cache_dir)
    return Kernel(scheduled.func, path, threads=threads, source=source)
