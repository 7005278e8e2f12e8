"""Default values of parameters, as `@input NAME expr EXPRESSION` lines in the C file's first comment say.

EXPRESSION is NumPy arithmetic over the file's macros and scalar parameters, such as `cos(2*pi*arange(N//2)/N)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.preprocess import Defines, Includes, read_source, reading_flags, run_compiler
from dspgen.frontend.read import split_defines
from plant_core.interp.python_codegen import Inputs
from plant_core.ir.c_semantics import NUMPY, is_float, shape_of
from plant_core.ir.func import Buf, Func
from plant_core.support.location import Loc, PlantError

Array = npt.NDArray[Any]
_LINE = re.compile(r"@input\s+(\w+)\s+(?:expr\s+)?(.+?)\s*$")
_LARGEST = 1 << 24


def _bitrev(count: int) -> Array:
    """The bit-reversed order of `count` elements, a power of two."""
    if count < 1 or count & (count - 1):
        raise ValueError("bitrev needs a power of two")
    order = np.zeros(1, np.int64)
    while order.size < count:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _arange(*limits: float) -> Array:
    numbers = np.arange(*limits)
    if numbers.size > _LARGEST:
        raise ValueError("arange is too long")
    return numbers


def _eye(count: int) -> Array:
    if count * count > _LARGEST:
        raise ValueError("eye is too large")
    return np.eye(count)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cos": np.cos,
    "sin": np.sin,
    "tan": np.tan,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "stack": np.stack,
    "concatenate": np.concatenate,
    "reshape": np.reshape,
    "outer": np.outer,
    "arange": _arange,
    "ones": np.ones,
    "zeros": np.zeros,
    "eye": _eye,
    "hanning": np.hanning,
    "hamming": np.hamming,
    "bitrev": _bitrev,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


def default_inputs(
    path: str, func: Func, defines: Defines = (), includes: Includes = (), given: Inputs | None = None
) -> dict[str, Array | int | float]:
    """The parameters that the file's own `@input` lines fill, but for those that are `given`. Expressions may name
    scalar parameters that are given, or that lines above fill, and extents are in terms of these. Raises SourceError
    for a line that can't be evaluated. Parameters that `defines` fix need none."""
    fixed = split_defines(path, defines)[1]
    lines = read_source(path).splitlines()
    found: dict[str, Array | int | float] = {}
    known: dict[str, float] | None = None
    for number, line in enumerate(lines, 1):
        if "@input" not in line or (match := _LINE.search(line.rstrip().removesuffix("*/"))) is None:
            continue
        name, expression = match.groups()
        if name in fixed:
            continue
        param = next((p for p in func.params if p.name == name), None)
        place = Loc(path, number, match.start() + 1)
        if param is None:
            fail("DG023", f"@input: '{name}' isn't a parameter", place, "name one of the kernel's parameters")
        if known is None:
            own = {p.name for p in func.params if not isinstance(p, Buf)}
            told = {n: np.asarray(v).item() for n, v in (given or {}).items() if n in own and np.ndim(v) == 0}
            known = _macros(path, defines, includes) | told
        if name in (given or {}):
            continue
        try:
            value = np.asarray(_value(ast.parse(expression, mode="eval").body, known))
            sizes = {p.name: int(known[p.name]) for p in func.params if not isinstance(p, Buf) and p.name in known}
            shape = shape_of(param, sizes) if isinstance(param, Buf) else ()
            filled = np.broadcast_to(value, shape).astype(NUMPY[param.dtype], order="C")
            found[name] = filled if isinstance(param, Buf) else filled.item()
        except PlantError:
            remedy = "give the integer parameters by -D, by --inputs, or by @input lines above this one"
            fail("DG023", f"@input: the size of '{name}' isn't known", place, remedy)
        except KeyError as error:
            remedy = "give a parameter by -D, by --inputs, or by an @input line above this one"
            fail("DG023", f"@input: {error} has no value here", place, remedy)
        except (ValueError, TypeError, SyntaxError, ArithmeticError, MemoryError) as error:
            fail("DG023", f"@input: can't evaluate '{expression}': {error}", place, "use NumPy functions and macros")
        if not isinstance(param, Buf):
            known[name] = float(filled.item()) if is_float(param.dtype) else int(filled.item())
    return found


def _macros(path: str, defines: Defines, includes: Includes) -> dict[str, float]:
    """The file's macros that stand for numbers."""
    macros, fixed = split_defines(path, defines)
    listing = run_compiler(["-E", "-dM", *reading_flags(path, macros, includes), path]).stdout
    texts = dict(re.findall(r"^#define ([A-Za-z]\w*) (.+)$", listing, re.M))
    found: dict[str, float] = dict(fixed)
    for _ in range(8):
        for name, text in texts.items():
            if name not in found:
                try:
                    # C's integer division is Python's floor division for sizes, which aren't negative.
                    found[name] = _value(ast.parse(text.replace("/", "//"), mode="eval").body, found)
                except (ValueError, TypeError, SyntaxError, KeyError, ZeroDivisionError):
                    continue
    return found


def _value(node: ast.AST, names: dict[str, float]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id="pi"):
            return np.pi
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left, ast.Pow(), right):
            return np.power(np.asarray(_value(left, names), np.float64), _value(right, names))
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return _plain(_OPERATORS[type(operator)](_value(left, names), _value(right, names)))
        case ast.UnaryOp(operator, operand) if type(operator) in _OPERATORS:
            return _plain(_OPERATORS[type(operator)](_value(operand, names)))
        case ast.List(elts) | ast.Tuple(elts):
            return [_value(e, names) for e in elts]
        case ast.Call(func=ast.Attribute(attr="ravel", value=inner), args=[]):
            return np.ravel(_value(inner, names))
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np"), attr=name), args=args, keywords=[]
        ):
            if name not in _FUNCTIONS:
                raise ValueError(f"the function '{name}' isn't known")
            return _FUNCTIONS[name](*(_value(a, names) for a in args))
    raise ValueError("only arithmetic and functions of NumPy can be used, as in reshape(x, (8, 16))")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
