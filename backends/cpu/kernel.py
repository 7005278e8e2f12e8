"""Compiled code, called on NumPy arrays in place."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backends.cpu.build import build, find_compiler, vector_width
from backends.cpu.emit import emit
from backends.cpu.names import symbol
from plant_core.ir import Binary, Buf, Cast, DType, Expr, Func, Param, ScalarParam, Select, Unary, Val
from plant_core.loc import PlantError
from plant_core.nest import Scheduled, as_written
from plant_core.scan import scan
from plant_core.values import NUMPY, apply_binary, apply_unary, convert, dtype_of, is_float, limits

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

    def __call__(self, *args: Any, **named: Any) -> None:
        given = self._arguments(args, named)
        scalars = {p.name: _number(p, given[p.name]) for p in self.func.params if isinstance(p, ScalarParam)}
        passed: list[Any] = []
        places: list[tuple[int, int, Buf]] = []
        for param in self.func.params:
            if isinstance(param, Buf):
                array = _array(param, given[param.name], scalars)
                start: int = array.__array_interface__["data"][0]  # much quicker than .ctypes
                places.append((start, start + array.nbytes, param))
                passed.append(start)
            else:
                passed.append(scalars[param.name])
        _check_apart(places)
        self._set_threads()
        self._entry(*passed)

    def _arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        names = [p.name for p in self.func.params]
        call = f"{self.func.name}({', '.join(names)})"
        if len(args) > len(names):
            raise PlantError(f"{len(args)} arguments for {call}", code="DG621")
        given = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                problem = "twice" if name in given else "which it doesn't have"
                raise PlantError(f"the call gives {call} the parameter '{name}', {problem}", code="DG621")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise PlantError(f"the call of {call} lacks '{missing[0]}'", code="DG621")
        return given

    def _set_threads(self) -> None:
        if self.threads is None:
            return
        if self.threads < 1:
            raise PlantError(f"{self.threads} threads can't run anything", code="DG623", remedy="ask for 1 or more")
        # Found through the kernel, which is linked to the runtime that it uses; without parallel loops, to none.
        setting = getattr(self._library, "omp_set_num_threads", None)
        if setting is not None:
            setting(ctypes.c_int(self.threads))


def _array(buf: Buf, value: Any, scalars: dict[str, Any]) -> np.ndarray[Any, Any]:
    def wrong(what: str, remedy: str) -> PlantError:
        return PlantError(f"the argument '{buf.name}' {what}", loc=buf.loc, code="DG622", remedy=remedy)

    dtype = np.dtype(NUMPY[buf.dtype])
    if not isinstance(value, np.ndarray):
        raise wrong(f"is a {type(value).__name__}, not a NumPy array", f"pass an array of {dtype}")
    if value.dtype != dtype:
        raise wrong(f"is of {value.dtype}, not {dtype}", f"convert it with .astype('{dtype}')")
    shape = tuple(n if isinstance(n, int) else extent_of(n, scalars) for n in buf.shape)
    if value.shape != shape:
        raise wrong(f"has shape {value.shape}, not {shape}", "pass an array of that shape")
    if not value.flags.c_contiguous or not value.flags.aligned:
        raise wrong("isn't contiguous in memory", "pass np.ascontiguousarray of it")
    if not buf.const and not value.flags.writeable:
        raise wrong("is read-only, and the kernel may write it", "pass a copy")
    return value


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
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, np.generic):
        value = value.item()
    problem = PlantError(
        f"the argument '{param.name}' is {value!r}, not a number that {param.dtype} holds", loc=param.loc, code="DG622"
    )
    if not isinstance(value, int | float):
        raise problem
    if is_float(param.dtype):
        return float(value)
    if not isinstance(value, int):
        raise problem
    low, high = limits(param.dtype)
    if not low <= value <= high:
        raise problem
    return int(value)


def compile_cpu(
    program: Func | Scheduled,
    *,
    fp: Literal["reassoc", "strict"] | None = None,
    march: str = "native",
    compiler: str | None = None,
    cache_dir: Path | None = None,
    threads: int | None = None,
) -> Kernel:
    """`program` compiled: a Func in its own order, a Scheduled in its schedule's.

    `fp` is by default what the schedule allows. `threads=1` leaves OpenMP out of the code.
    """
    scheduled = as_written(program) if isinstance(program, Func) else program
    rules: Literal["reassoc", "strict"] = fp or ("reassoc" if scheduled.reassoc else "strict")
    width = vector_width(find_compiler(compiler), march)
    source = emit(scheduled.func, scan(scheduled), fp=rules, vector_bytes=width, threads=threads != 1)
    path = build(source, fp=rules, march=march, compiler=compiler, cache_dir=cache_dir)
    return Kernel(scheduled.func, path, threads=threads, source=source)
