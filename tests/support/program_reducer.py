"""Smaller programs that fail in the same way: delta debugging over the syntax tree of `tests.generators.programs`.

Every candidate is a defined program again, as its extents are found anew. Statements go first, in large pieces, then
loops and conditions, then parts of expressions, then numbers and types.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.generators.program_files import Source, source
from tests.generators.program_intervals import Undefined
from tests.generators.program_tree import (
    Array,
    Assign,
    Bin,
    Call,
    Cast,
    Cond,
    Deref,
    Elem,
    Expr,
    For,
    If,
    Local,
    Num,
    Number,
    Pointer,
    Program,
    Stmt,
    Un,
    Var,
    is_real,
    type_of,
    types_of,
    walk_tree,
)

EXPRESSIONS = (Num, Var, Elem, Deref, Un, Bin, Cond, Call, Cast)
Types = dict[str, str]


def reduced(start: Source, fails: Callable[[Source], bool], seconds: float = 300.0) -> Source:
    """The smallest program found, within so many seconds, for which `fails` still holds."""
    until, best, seen = time.monotonic() + seconds, start, {start.text}
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for edits in (_fewer, _looser, _simpler, _plainer):
            position = 0
            while time.monotonic() < until:
                found = _next(best, edits, position, fails, seen, until)
                if found is None:
                    break
                best, position = found
                progress = True
    return best


def _next(
    best: Source, edits: Callable[[Program], Iterator[Program]], first: int, fails: Callable[[Source], bool],
    seen: set[str], until: float,
) -> tuple[Source, int] | None:  # fmt: skip
    """The next edit, from the `first` on and then from the start, whose program still fails; and its number."""
    candidates = list(edits(best.program))
    for offset in range(len(candidates)):
        position = (first + offset) % len(candidates)
        if time.monotonic() > until:
            return None
        try:
            made = source(candidates[position])
        except Undefined:
            continue
        if made.text in seen:
            continue
        seen.add(made.text)
        if fails(made):
            return made, position
    return None


# Edits


def _fewer(program: Program) -> Iterator[Program]:
    """Without some statements."""
    for size in (8, 4, 2, 1):
        for body in _blocks(program.body, size):
            yield replace(program, body=body)


def _blocks(body: tuple[Stmt, ...], size: int) -> Iterator[tuple[Stmt, ...]]:
    if len(body) >= size:
        for at in range(0, len(body), size):
            yield body[:at] + body[at + size :]
    for at, stmt in enumerate(body):
        for name in ("yes", "no", "body"):
            if isinstance(inner := getattr(stmt, name, None), tuple):
                for made in _blocks(inner, size):
                    yield (*body[:at], replace(stmt, **{name: made}), *body[at + 1 :])


def _looser(program: Program) -> Iterator[Program]:
    """Without a loop or a condition round what it has."""
    for body in _opened(program.body):
        yield replace(program, body=body)
    if program.result:
        yield replace(program, result="")


def _opened(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    for at, stmt in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        match stmt:
            case If(_, yes, no):
                yield (*before, *yes, *after)
                if no:
                    yield (*before, *no, *after)
            case For(name=name, low=low, highs=highs, body=inner):
                yield (*before, *_substituted(inner, Var(name), low), *after)
                if len(highs) > 1:
                    for k in range(len(highs)):
                        yield (*before, replace(stmt, highs=highs[:k] + highs[k + 1 :]), *after)
                if stmt.style != "for":
                    yield (*before, replace(stmt, style="for"), *after)
                if abs(stmt.step) > 1:
                    yield (*before, replace(stmt, step=1 if stmt.step > 0 else -1), *after)
                if stmt.step == -1 and len(highs) == 1:
                    yield (*before, replace(stmt, low=highs[0], highs=(low,), op="<=", step=1), *after)
        for name in ("yes", "no", "body"):
            if isinstance(inner := getattr(stmt, name, None), tuple):
                for made in _opened(inner):
                    yield (*before, replace(stmt, **{name: made}), *after)


def _substituted(node: Any, old: Expr, new: Expr) -> Any:
    if node == old:
        return new
    if isinstance(node, tuple):
        return tuple(_substituted(part, old, new) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        changed = {f.name: _substituted(getattr(node, f.name), old, new) for f in fields(node)}
        return replace(node, **changed)
    return node


def _simpler(program: Program) -> Iterator[Program]:
    """With a part of an expression in its place, or a constant."""
    types = types_of(program)
    for body in _replaced(program.body, lambda e: _parts(e, types)):
        yield replace(program, body=body)
    for at, helper in enumerate(program.helpers):
        for value in _replaced(helper.value, lambda e: _parts(e, types)):
            others = (*program.helpers[:at], replace(helper, value=value), *program.helpers[at + 1 :])
            yield replace(program, helpers=others)


def _replaced(node: Any, edits: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """The tree with one node replaced by each of its edits."""
    yield from edits(node)
    if isinstance(node, tuple):
        for at, part in enumerate(node):
            for made in _replaced(part, edits):
                yield (*node[:at], made, *node[at + 1 :])
    elif is_dataclass(node) and not isinstance(node, type):
        for f in fields(node):
            part = getattr(node, f.name)
            if isinstance(part, tuple) or is_dataclass(part):
                for made in _replaced(part, edits):
                    yield replace(node, **{f.name: made})


def _parts(node: Any, types: Types) -> Iterator[Any]:
    match node:
        case Assign(target, op, value) if op != "=":
            yield Assign(target, "=", value)
        case Assign(_, _, Num()) | Local(_, _, Num()) | Num() | Var():
            return
        case _ if isinstance(node, EXPRESSIONS):
            real = is_real(_type(node, types))
            for inner in _inner(node):
                if is_real(_type(inner, types)) == real:
                    yield inner
            yield Num(1.0, "float") if real else Num(1)
            if isinstance(node, Elem) and not real:
                yield Num(0)


def _inner(node: Expr) -> Iterator[Expr]:
    match node:
        case Un(_, operand) | Cast(_, operand):
            yield operand
        case Bin(_, left, right):
            yield left
            yield right
        case Cond(test, yes, no):
            yield from (yes, no, test)
        case Call(_, args):
            yield from args
        case Elem(_, subs):
            yield from subs


def _type(node: Expr, types: Types) -> str:
    try:
        return type_of(node, types)
    except KeyError:
        return "int"


def _plainer(program: Program) -> Iterator[Program]:
    """With smaller numbers, plainer types, and sizes that are constants."""
    for at, number in enumerate(program.numbers):
        others = program.numbers[:at] + program.numbers[at + 1 :]
        if number.value is not None:
            body = _substituted(program.body, Var(number.name), Num(number.value))
            yield replace(program, numbers=others, body=body)
            for value in _lesser(number.value):
                numbers = (*program.numbers[:at], replace(number, value=value), *program.numbers[at + 1 :])
                yield replace(program, numbers=numbers)
    for body in _replaced(program.body, _numbers):
        yield replace(program, body=body)
    for at, array in enumerate(program.arrays):
        for made in _arrays(array):
            yield replace(program, arrays=(*program.arrays[:at], made, *program.arrays[at + 1 :]))
    narrow = {"short", "unsigned short", "signed char", "unsigned char", "unsigned int", "long", "double"}
    for old in sorted(narrow & {n.type for n in walk_tree(program) if isinstance(n, Array | Local | Number | Num)}):
        yield _typed(program, old, "float" if old == "double" else "int")


def _typed(program: Program, old: str, new: str) -> Program:
    def changed(node: Any) -> Any:
        if isinstance(node, tuple):
            return tuple(changed(part) for part in node)
        if is_dataclass(node) and not isinstance(node, type):
            made = replace(node, **{f.name: changed(getattr(node, f.name)) for f in fields(node)})
            return replace(made, type=new) if getattr(made, "type", None) == old else made
        return node

    made: Program = changed(program)
    return made


def _arrays(array: Array) -> Iterator[Array]:
    if array.slack:
        yield replace(array, slack=0)
    if array.pointer:
        yield replace(array, pointer=False)
    if any(array.symbols):
        yield replace(array, symbols=())
    if array.role == "local":
        yield replace(array, role="out")
    if array.role == "table":
        yield replace(array, role="in", contents=None if is_real(array.type) else array.contents)
    if array.contents is not None and array.contents != (1, 0, array.contents[2]):
        yield replace(array, contents=(1, 0, array.contents[2]))


def _numbers(node: Any) -> Iterator[Any]:
    if isinstance(node, Num) and not is_real(node.type):
        for value in _lesser(int(node.value)):
            yield replace(node, value=value)
    elif isinstance(node, Num) and node.value != 1.0:
        yield replace(node, value=1.0)
    elif isinstance(node, Pointer) and node.start != Num(0):
        yield replace(node, start=Num(0))


def _lesser(value: int) -> list[int]:
    found = [0, 1, 2, value // 2, value - 8, value - 1] if value > 0 else [0]
    return list(dict.fromkeys(n for n in found if 0 <= n < abs(value)))
