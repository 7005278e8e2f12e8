"""A `Func`, a `Scheduled` and their expressions as text that loses nothing; `plant_core.ir.parser` reads it back.

    func matmul(const f32 a[8][8], f32 c[8][8], i32 n) at matmul.c:1:6
      context [n] -> { : n > 0 }
      local f32 t[n + 1] in stack align 64 per S1.i_o at 3:9
      S0[i, j] at 4:5
        domain   { S0[i, j] : 0 <= i <= 7 and 0 <= j <= 7 }
        schedule { S0[i, j] -> [0, i, 0, j, 0] }
        c[i][j] = 0.0f
      effect E0[] at 6:3
        domain   { E0[] }
        schedule { E0[] -> [1, 0, 0, 0, 0] }
        memcpy t a
    scheduled reassoc
      nest S0[i, j_o, j_i]
        relation { S0[i, j] -> [...] }
        tag i parallel
        option j_i isolate

Expressions are C's, with `(f32)x` for a conversion, `a // b` rounding down, `a / b` and `a % b` rounding towards zero,
and a suffix on constants (`1.0` is f64, `1.0f` f32, `1` i32, `1u8`). A type that isn't what the operands and the
declarations say follows its expression: `(a + b).f64`. A name is an iterator, else a parameter, else a scalar array;
`s[]`, `iter s`, `param s`, `call f(x)` and `access f(x)` say which where that rule gives another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from re import fullmatch
from typing import assert_never

import islpy as isl

from plant_core.ir.accesses import all_bufs
from plant_core.ir.c_semantics import COMPARISONS, dtype_of
from plant_core.ir.func import (
    Access,
    Alloc,
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    Comp,
    DType,
    Effect,
    Expr,
    Free,
    Func,
    Iter,
    Load,
    Memcpy,
    Param,
    Ramp,
    ScalarParam,
    Select,
    Unary,
    Val,
    Verbatim,
)
from plant_core.ir.scheduled import Scheduled
from plant_core.support.location import Loc

INFIX: dict[BinaryOp, tuple[str, int]] = {
    "mul": ("*", 10), "div": ("/", 10), "floordiv": ("//", 10), "mod": ("%", 10), "add": ("+", 9), "sub": ("-", 9),
    "shl": ("<<", 8), "shr": (">>", 8), "lt": ("<", 7), "le": ("<=", 7), "gt": (">", 7), "ge": (">=", 7),
    "eq": ("==", 6), "ne": ("!=", 6), "and": ("&", 5), "xor": ("^", 4), "or": ("|", 3), "land": ("&&", 2),
    "lor": ("||", 1),
}  # fmt: skip
PREFIX = {"neg": "-", "not": "~", "lnot": "!"}
RESERVED = frozenset({"min", "max", "abs", "sqrt", "ramp", "verbatim", "iter", "param", "call", "access"})
"""Words that no bare name in an expression may be."""
_HIGHEST = 11


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a program's expressions stand for: types of arrays, parameters and computations by name."""

    bufs: Mapping[str, DType] = field(default_factory=dict)
    params: Mapping[str, DType] = field(default_factory=dict)
    comps: Mapping[str, DType] = field(default_factory=dict)


def names_of(func: Func) -> Names:
    params: dict[str, DType] = {c.defines: c.target.dtype for c in func.comps if c.defines}
    params |= {p.name: p.dtype for p in func.params if isinstance(p, ScalarParam)}
    bufs = {b.name: b.dtype for b in all_bufs(func).values()}
    return Names(bufs, params, {c.name: c.target.dtype for c in func.comps})


def natural_type(expr: Expr, names: Names) -> DType | None:
    """The type that an expression's parts and the declarations give it; None where they give none."""
    match expr:
        case Param(name):
            return names.params.get(name)
        case Load(buf):
            return names.bufs.get(buf)
        case Access(comp):
            return names.comps.get(comp)
        case Unary(op, operand):
            return "i32" if op == "lnot" else dtype_of(operand)
        case Binary(op, left):
            return "i32" if op in COMPARISONS or op in ("land", "lor") else dtype_of(left)
        case Select(true=true):
            return dtype_of(true)
        case Call(args=args):
            return dtype_of(args[0]) if args else None
        case Ramp(load=load):
            return load.dtype
        case Verbatim():
            return "i32"
        case Val() | Iter() | Cast():
            return dtype_of(expr)
        case _:
            assert_never(expr)


def print_expr(expr: Expr) -> str:
    """C-like text, as in the module's docstring, without the marks that only a whole program's text needs."""
    return _Text(None, frozenset()).expr(expr, 0)


def print_func(func: Func, *, places: bool = False) -> str:
    """The whole program. Two programs with the same text are the same program, but for the places in the source of
    single accesses: those follow each access as `@line:column` with `places`."""
    return "\n".join(_func(func, places)) + "\n"


def print_scheduled(scheduled: Scheduled, *, places: bool = False) -> str:
    """The program, its nests, then after `origin` the same of the origin (no program again if it is the same)."""
    lines: list[str] = []
    current: Scheduled | None = scheduled
    known: list[str] = []
    while current is not None:
        program = _func(current.func, places)
        lines += ["origin"] * bool(lines) + (program if program != known else [])
        lines += _nests(current)
        current, known = current.origin, program
    return "\n".join(lines) + "\n"


def _nests(scheduled: Scheduled) -> Iterator[str]:
    yield "scheduled" + " reassoc" * scheduled.reassoc
    func = scheduled.func
    iters = {**{c.name: c.iters for c in func.comps}, **{e.name: e.iters for e in func.effects}}
    for nest in scheduled.nests:
        yield f"  nest {nest.name}[{', '.join(nest.loops)}]"
        yield f"    relation {isl_text(_named(nest.relation, iters.get(nest.name, ())))}"
        yield from (f"    tag {loop} {tag}" for loop, tag in nest.tags)
        yield from (f"    option {loop} {option}" for loop, option in nest.options)


def _func(func: Func, places: bool) -> list[str]:
    names = names_of(func)
    text = _Text(names, frozenset(), func.loc.file, places)
    header = [text.declaration(p) for p in func.params]
    lines = [f"func {func.name}({', '.join(header)}) at {_file(func.loc.file)}:{func.loc.line}:{func.loc.column}"]
    if func.context is not None:
        lines.append(f"  context {isl_text(func.context)}")
    others = [b for b in func.bufs if b not in func.params]
    lines += [f"  {text.declaration(b)}" for b in others]
    ordered = [*(p for p in func.params if isinstance(p, Buf)), *others]
    if list(func.bufs) != ordered:
        lines.append(f"  order {', '.join(b.name for b in func.bufs)}")
    for comp in func.comps:
        lines += _comp(comp, _Text(names, frozenset(comp.iters), func.loc.file, places))
    for effect in func.effects:
        lines += [
            f"  effect {effect.name}[{', '.join(effect.iters)}]{text.at(effect.loc)}",
            *_sets(effect),
            f"    {_action(effect)}",
        ]
    return lines


def _comp(comp: Comp, text: _Text) -> Iterator[str]:
    defines = f" defines {comp.defines}" if comp.defines else ""
    yield f"  {comp.name}[{', '.join(comp.iters)}]{defines}{text.at(comp.loc)}"
    yield from _sets(comp)
    yield f"    {text.target(comp.target)} = {text.expr(comp.value, 0)}"


def _sets(statement: Comp | Effect) -> Iterator[str]:
    yield f"    domain   {isl_text(statement.domain)}"
    yield f"    schedule {isl_text(_named(statement.schedule, statement.iters))}"


def _action(effect: Effect) -> str:
    match effect.action:
        case Memcpy(to, source):
            return f"memcpy {to} {source}"
        case Alloc(buf):
            return f"alloc {buf}"
        case Free(buf):
            return f"free {buf}"
        case Verbatim(text, dtype):
            return f"verbatim({text!r})" + (f".{dtype}" if dtype != "i32" else "")
        case _:
            assert_never(effect.action)


def isl_text(value: isl.Set | isl.Map) -> str:
    """isl's text of it, one that reading back prints the same: isl finds other words for some sets it has read."""
    seen: list[str] = []
    text = str(value)
    while text not in seen and len(seen) < 20:
        seen.append(text)
        text = str(type(value)(text))
    return min(seen[seen.index(text) :]) if text in seen else text


def _named(relation: isl.Map, iters: tuple[str, ...]) -> isl.Map:
    """The map with the statement's own words for its iterators, which isl forgets at times."""
    if relation.dim(isl.dim_type.in_) == len(iters):
        for k, name in enumerate(iters):
            relation = relation.set_dim_name(isl.dim_type.in_, k, name)
    return relation


def _file(name: str) -> str:
    return name if fullmatch(r"[\w./+<>-]+", name) else repr(name)


@dataclass(frozen=True, slots=True)
class _Text:
    """Expressions of one statement; without `names`, no marks that tell types and kinds of name."""

    names: Names | None
    iters: frozenset[str]
    file: str = ""
    places: bool = False

    def at(self, loc: Loc | None) -> str:
        if loc is None:
            return ""
        file = "" if loc.file == self.file else f"{_file(loc.file)}:"
        return f" at {file}{loc.line}:{loc.column}"

    def declaration(self, declared: Buf | ScalarParam) -> str:
        if isinstance(declared, ScalarParam):
            return f"{declared.dtype} {declared.name}{self.at(declared.loc)}"
        shape = "".join(f"[{n if isinstance(n, int) else self.expr(n, 0)}]" for n in declared.shape)
        shape = shape or "[]" * (declared.kind == "param")
        words = ["local" if declared.kind == "local" else "", "const" if declared.const else "", declared.dtype]
        words.append(declared.name + shape)
        words += [f"in {declared.location}"] * (declared.location != "heap")
        words += [f"align {declared.align}"] * (declared.align != 0)
        words += [f"per {'.'.join(declared.alloc_at)}"] if declared.alloc_at else []
        return " ".join(w for w in words if w) + self.at(declared.loc)

    def target(self, target: Load) -> str:
        """As any Load, but a bare name is an array of no dimensions here."""
        if target.indices:
            return self.expr(target, 0)
        return self._typed(target, target.buf) + self._place(target)

    def expr(self, expr: Expr, level: int) -> str:
        text, own = self._untyped(expr)
        typed = self._typed(expr, f"({text})" if own < _HIGHEST else text) if self._marked(expr) else text
        if isinstance(expr, Load | Access):
            return typed + self._place(expr)
        return f"({typed})" if own < level and typed == text else typed

    def _marked(self, expr: Expr) -> bool:
        return self.names is not None and natural_type(expr, self.names) != dtype_of(expr)

    def _typed(self, expr: Expr, text: str) -> str:
        return f"{text}.{dtype_of(expr)}" if self._marked(expr) else text

    def _place(self, access: Load | Access) -> str:
        if not self.places or access.loc is None:
            return ""
        file = "" if access.loc.file == self.file else f"{access.loc.file!r}:"
        return f"@{file}{access.loc.line}:{access.loc.column}"

    def _untyped(self, expr: Expr) -> tuple[str, int]:
        """The text and how tightly it binds."""
        match expr:
            case Val(value, dtype):
                text = constant(value, dtype)
                return text, 0 if text.startswith("-") else _HIGHEST
            case Cast(dtype, operand):
                return f"({dtype}){self.expr(operand, _HIGHEST)}", _HIGHEST
            case Unary(op, operand) if op in PREFIX:
                inner = self.expr(operand, _HIGHEST)
                # `-3` is a constant.
                inner = f"({inner})" if op == "neg" and inner[0].isdigit() else inner
                return f"({PREFIX[op]}{inner})" if self._marked(expr) else f"{PREFIX[op]}{inner}", _HIGHEST
            case Unary(op, operand):
                return f"{op}({self.expr(operand, 0)})", _HIGHEST
            case Binary("min" | "max" as op, left, right):
                return f"{op}({self.expr(left, 0)}, {self.expr(right, 0)})", _HIGHEST
            case Binary(op, left, right):
                symbol, own = INFIX[op]
                return f"{self.expr(left, own)} {symbol} {self.expr(right, own + 1)}", own
            case Select(condition, true, false):
                return f"{self.expr(condition, 1)} ? {self.expr(true, 1)} : {self.expr(false, 1)}", 0
            case Ramp(load, stride, lanes):
                return f"ramp({self.expr(load, 0)}, {self.expr(stride, 0)}, {lanes})", _HIGHEST
            case Verbatim(text):
                return f"verbatim({text!r})", _HIGHEST
            case _:
                return self._name(expr), _HIGHEST

    def _name(self, expr: Iter | Param | Load | Access | Call) -> str:
        names = self.names
        match expr:
            case Iter(name):
                plain = names is None or (name in self.iters and name not in RESERVED)
                return name if plain else f"iter {name}"
            case Param(name):
                plain = names is None or (name in names.params and name not in RESERVED | self.iters)
                return name if plain else f"param {name}"
            case Load(name, indices):
                taken = names is not None and (name in RESERVED | self.iters or name in names.params)
                unknown = names is not None and name not in names.bufs
                empty = "[]" if (taken or unknown) and not indices else ""
                return name + empty + "".join(f"[{self.expr(index, 0)}]" for index in indices)
            case Access(name, args):
                escape = names is not None and (name in RESERVED or name not in names.comps)
                return f"{'access ' * escape}{name}({', '.join(self.expr(a, 0) for a in args)})"
            case Call(name, args):
                escape = names is not None and (name in RESERVED or name in names.comps)
                return f"{'call ' * escape}{name}({', '.join(self.expr(a, 0) for a in args)})"
            case _:
                assert_never(expr)


def constant(value: int | float, dtype: DType) -> str:
    """A number with the suffix that tells its type."""
    if isinstance(value, float) and not isfinite(value):
        return f"{dtype}.{float(value)!r}".replace(".-", ".minus_")
    plain: DType = "f64" if isinstance(value, float) else "i32"
    number = repr(float(value)) if isinstance(value, float) else str(int(value))
    if dtype == "f32":
        return f"{number}f"
    return number if dtype == plain else f"{number}{dtype}"
