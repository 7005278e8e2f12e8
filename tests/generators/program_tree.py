"""The syntax tree of random C functions, its types, and its text.

    Program ::= arrays, numbers (scalar parameters), helpers, body

Nodes are frozen, so that a reduced program is made by replacing some of them. A subscript may be negative in the tree:
`program_ranges` finds the least of every axis of an array, and the text adds that to all subscripts there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

FLOATS = ("float", "double")
BITS: dict[str, tuple[int, bool]] = {
    "signed char": (8, True),
    "unsigned char": (8, False),
    "short": (16, True),
    "unsigned short": (16, False),
    "int": (32, True),
    "unsigned int": (32, False),
    "long": (64, True),
    "unsigned long": (64, False),
}
_RANK = ("int", "unsigned int", "long", "unsigned long", "float", "double")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGICAL = (*COMPARISONS, "&&", "||")


@dataclass(frozen=True, slots=True)
class Num:
    value: int | float
    type: str = "int"


@dataclass(frozen=True, slots=True)
class Var:
    name: str


@dataclass(frozen=True, slots=True)
class Elem:
    array: str
    subs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Deref:
    """`*p`, `*p++` or `*p--`."""

    pointer: str
    step: int


@dataclass(frozen=True, slots=True)
class Un:
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Bin:
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Cond:
    test: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    type: str
    operand: Expr


Expr = Num | Var | Elem | Deref | Un | Bin | Cond | Call | Cast


@dataclass(frozen=True, slots=True)
class Assign:
    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Local:
    """A scalar of a block; `value` is its initialiser."""

    type: str
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Pointer:
    """`T *name = array + start`, of an array of one axis."""

    name: str
    array: str
    start: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    """`name += by`, of a pointer or a counter."""

    name: str
    by: int


@dataclass(frozen=True, slots=True)
class If:
    test: Expr
    yes: tuple[Stmt, ...]
    no: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    """`for (int name = low; name op high; name += step)`; several `highs` are joined by `joint`.

    `style`: "for"; "while"; "do", whose body runs at least once; "outer", with the iterator declared before and alive
    afterwards; "double" or "halve", where the iterator is multiplied or divided by 2 in place of `step`.
    """

    name: str
    low: Expr
    op: str
    highs: tuple[Expr, ...]
    step: int
    body: tuple[Stmt, ...]
    joint: str = "&&"
    style: str = "for"


@dataclass(frozen=True, slots=True)
class Jump:
    """`break`, `continue`, `return`, or a `goto` to the label."""

    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    name: str


Stmt = Assign | Local | Pointer | Advance | If | For | Jump | Label


@dataclass(frozen=True, slots=True)
class Array:
    """`role`: "in" (const), "out" (read and written), "local" or "table" (constant, of the file).

    `contents` (k, c, m): element i is (k * i + c) mod m. `symbols`: for each axis the parameter that its extent
    follows, or "". `slack`: so many elements more on the last axis. `pointer`: the outermost extent isn't told.
    """

    name: str
    type: str
    rank: int
    role: str
    contents: tuple[int, int, int] | None = None
    symbols: tuple[str, ...] = ()
    slack: int = 0
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar parameter; without a value it is random and no bound."""

    name: str
    type: str
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that returns an expression of its parameters."""

    name: str
    type: str
    params: tuple[tuple[str, str], ...]  # type and name
    value: Expr


@dataclass(frozen=True, slots=True)
class Program:
    arrays: tuple[Array, ...]
    numbers: tuple[Number, ...]
    helpers: tuple[Helper, ...]
    body: tuple[Stmt, ...]
    name: str = "kernel"
    result: str = ""  # the variable that it returns


# Types


def is_real(type_: str) -> bool:
    return type_ in FLOATS


def promoted(type_: str) -> str:
    return "int" if BITS.get(type_, (64, True))[0] < 32 else type_


def common(left: str, right: str) -> str:
    return max(promoted(left), promoted(right), key=_RANK.index)


_CALLS = {"abs": "int", "labs": "long"}


def type_of(expr: Expr, types: dict[str, str]) -> str:
    """The C type; `types` are those of variables, of elements of arrays and pointers, and of helpers."""
    match expr:
        case Num(_, type_) | Cast(type_, _):
            return type_
        case Var(name) | Elem(name, _) | Deref(name, _):
            return types[name]
        case Un("!", _):
            return "int"
        case Un(_, operand):
            return promoted(type_of(operand, types))
        case Bin(op, left, _) if op in ("<<", ">>"):
            return promoted(type_of(left, types))
        case Bin(op, left, right):
            return "int" if op in LOGICAL else common(type_of(left, types), type_of(right, types))
        case Cond(_, yes, no):
            return common(type_of(yes, types), type_of(no, types))
        case Call(name, _):
            return types.get(name) or _CALLS.get(name) or ("float" if name.endswith("f") else "double")


def walk_tree(node: Any) -> Iterator[Any]:
    """All nodes, from the outermost in."""
    if isinstance(node, tuple):
        for part in node:
            yield from walk_tree(part)
    elif is_dataclass(node):
        yield node
        for f in fields(node):
            yield from walk_tree(getattr(node, f.name))


def types_of(program: Program) -> dict[str, str]:
    types = {a.name: a.type for a in program.arrays} | {n.name: n.type for n in program.numbers}
    types |= {h.name: h.type for h in program.helpers}
    types |= {name: type_ for h in program.helpers for type_, name in h.params}
    for node in walk_tree(program.body):
        match node:
            case Local(type_, name, _):
                types[name] = type_
            case For(name=name):
                types[name] = "int"
            case Pointer(name, array, _):
                types[name] = types.get(array, "int")
    return types


# Text


def number_text(value: int | float, type_: str) -> str:
    if type_ == "float":
        return f"{float(value)!r}f"
    if type_ == "double":
        return repr(float(value))
    suffix = {"unsigned int": "u", "long": "L", "unsigned long": "UL"}.get(type_, "")
    return f"{int(value)}{suffix}"


Origins = dict[str, tuple[int, ...]]  # for each array, the least subscript of each axis


def plus(expr: Expr, number: int) -> Expr:
    """The sum, as somebody would write it."""
    if number == 0:
        return expr
    match expr:
        case Num(value, "int"):
            return Num(int(value) + number)
        case Bin("+" | "-" as op, left, Num(value, "int")):
            total = (int(value) if op == "+" else -int(value)) + number
            return left if total == 0 else Bin("+" if total > 0 else "-", left, Num(abs(total)))
    return Bin("+" if number > 0 else "-", expr, Num(abs(number)))


def expr_text(expr: Expr, origins: Origins, top: bool = True) -> str:
    def of(part: Expr) -> str:
        return expr_text(part, origins, False)

    match expr:
        case Num(value, type_):
            text = number_text(value, type_)
            return text if value >= 0 or top else f"({text})"
        case Var(name):
            return name
        case Elem(array, subs):
            return array + subs_text(array, subs, origins)
        case Deref(pointer, step):
            text = f"*{pointer}" + ("++" if step > 0 else "--" if step < 0 else "")
            return text if top else f"({text})"
        case Un(op, operand):
            return f"{op}{of(operand)}" if isinstance(operand, Var | Elem) else f"{op}({expr_text(operand, origins)})"
        case Bin(op, left, right):
            text = f"{of(left)} {op} {of(right)}"
        case Cond(test, yes, no):
            text = f"{of(test)} ? {of(yes)} : {of(no)}"
        case Call(name, args):
            return f"{name}({', '.join(expr_text(a, origins) for a in args)})"
        case Cast(type_, operand):
            return f"({type_}){of(operand)}"
    return text if top else f"({text})"


def subs_text(array: str, subs: tuple[Expr, ...], origins: Origins) -> str:
    least = origins.get(array, (0,) * len(subs))
    return "".join(f"[{expr_text(plus(sub, -low), origins)}]" for sub, low in zip(subs, least, strict=True))


@dataclass(frozen=True, slots=True)
class Writer:
    """The statements' text; `elements` are the arrays' types, which pointers need."""

    origins: Origins
    arrays: dict[str, Array]

    def expr(self, expr: Expr) -> str:
        return expr_text(expr, self.origins)

    def block(self, body: tuple[Stmt, ...], indent: str) -> list[str]:
        return [line for stmt in body for line in self.stmt(stmt, indent)]

    def stmt(self, stmt: Stmt, indent: str) -> list[str]:
        match stmt:
            case Assign(target, op, value):
                return [f"{indent}{self.expr(target)} {op} {self.expr(value)};"]
            case Local(type_, name, value):
                return [f"{indent}{type_} {name} = {self.expr(value)};"]
            case Pointer(name, array, start):
                found = self.arrays[array]
                const = "const " if found.role in ("in", "table") else ""
                place = plus(start, -self.origins.get(array, (0,))[0])
                return [f"{indent}{const}{found.type} *{name} = {array} + ({self.expr(place)});"]
            case Advance(name, by):
                text = {1: f"{name}++", -1: f"{name}--"}.get(by, f"{name} {'+' if by > 0 else '-'}= {abs(by)}")
                return [f"{indent}{text};"]
            case If(test, yes, no):
                lines = [f"{indent}if ({self.expr(test)}) {{", *self.block(yes, indent + "  ")]
                if no:
                    lines += [f"{indent}}} else {{", *self.block(no, indent + "  ")]
                return [*lines, f"{indent}}}"]
            case For():
                return self.loop(stmt, indent)
            case Jump(kind, label):
                return [f"{indent}{kind}{' ' + label if label else ''};"]
            case Label(name):
                return [f"{indent}{name}:;"]

    def loop(self, loop: For, indent: str) -> list[str]:
        name = loop.name
        tests = [f"{name} {loop.op} {expr_text(high, self.origins, False)}" for high in loop.highs]
        test = tests[0] if len(tests) == 1 else f" {loop.joint} ".join(f"({t})" for t in tests)
        body = self.block(loop.body, indent + "  ")
        low = self.expr(loop.low)
        step = {1: f"{name}++", -1: f"{name}--"}.get(
            loop.step, f"{name} {'+' if loop.step > 0 else '-'}= {abs(loop.step)}"
        )
        step = {"double": f"{name} *= 2", "halve": f"{name} /= 2"}.get(loop.style, step)
        if loop.style in ("while", "do"):
            # A block of its own, so that `continue` would skip the step: bodies of these have none.
            head = f"while ({test}) {{" if loop.style == "while" else "do {"
            tail = "}" if loop.style == "while" else f"}} while ({test});"
            inner = [f"{indent}{head}", *body, f"{indent}  {step};", f"{indent}{tail}"]
            return [f"{indent}int {name} = {low};", *inner]
        lines = [f"{indent}int {name};"] if loop.style == "outer" else []
        declare = "" if loop.style == "outer" else "int "
        return [*lines, f"{indent}for ({declare}{name} = {low}; {test}; {step}) {{", *body, f"{indent}}}"]
