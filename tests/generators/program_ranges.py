"""Which elements a random program may touch, and whether all that it does is defined.

The iterations of its loops are enumerated, and every integer is an interval at each of them: exact for iterators, sizes
and arrays of known contents, all that its type holds for what the program computes. So extents are as large as they
have to be, and what might divide by zero, shift too far or convert a float out of range raises Undefined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.generators.program_intervals import (
    Array,
    Interval,
    Undefined,
    bits,
    compare,
    full,
    is_exact,
    is_small,
    quotient,
    real,
    remainder,
    span,
    within,
)
from tests.generators.program_tree import (
    BITS,
    COMPARISONS,
    Advance,
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
    Jump,
    Label,
    Local,
    Num,
    Origins,
    Pointer,
    Program,
    Stmt,
    Un,
    Var,
    common,
    is_real,
    type_of,
    types_of,
    walk_tree,
)

MOST_POINTS = 40_000
MOST_ELEMENTS = 12_000


@dataclass(frozen=True, slots=True)
class Ranges:
    origins: Origins
    extents: dict[str, tuple[int, ...]]
    points: int  # how many statements run at most
    idle: int  # how many loops never run


def ranges(program: Program) -> Ranges:
    """Raises Undefined."""
    counted = _Enumerator(program, {})
    counted.walk(program.body)
    found = _Enumerator(program, counted.moves())
    found.walk(program.body)
    return found.ranges()


@dataclass(slots=True)
class _Enumerator:
    program: Program
    moved: dict[str, tuple[int, int]]  # of counters and pointers, how far they go
    types: dict[str, str] = field(init=False)
    vars: dict[str, Interval] = field(default_factory=dict)
    count: int = 1
    mask: Array | None = None
    least: dict[str, list[int]] = field(default_factory=dict)
    most: dict[str, list[int]] = field(default_factory=dict)
    total: int = 0
    starts: dict[str, Array] = field(default_factory=dict)  # of counters and pointers: which start of them this is
    advanced: dict[str, tuple[Array, Array]] = field(default_factory=dict)  # down and up, for each start
    assigned: frozenset[str] = frozenset()
    pointers: dict[str, tuple[str, Interval]] = field(default_factory=dict)
    loops: int = 0
    idle: int = 0
    exact: bool = False  # whether elements of known contents are known: only in subscripts, bounds and initialisers

    def __post_init__(self) -> None:
        self.types = types_of(self.program)
        names = {
            n.target.name for n in walk_tree(self.program.body) if isinstance(n, Assign) and isinstance(n.target, Var)
        }
        self.assigned = frozenset(names)
        labels = {n.name for n in walk_tree(self.program.body) if isinstance(n, Label)}
        jumps = {n.label for n in walk_tree(self.program.body) if isinstance(n, Jump) and n.label}
        if jumps - labels:
            raise Undefined("a jump without its label")
        for number in self.program.numbers:
            known = number.value
            self.vars[number.name] = full(number.type) if known is None else (np.int64(known), np.int64(known))

    # What is found

    def moves(self) -> dict[str, tuple[int, int]]:
        return {name: (int(down.min(initial=0)), int(up.max(initial=0))) for name, (down, up) in self.advanced.items()}

    def ranges(self) -> Ranges:
        origins, extents = {}, {}
        for array in self.program.arrays:
            low = self.least.get(array.name, [0] * array.rank)
            high = self.most.get(array.name, [0] * array.rank)
            origins[array.name] = tuple(min(n, 0) for n in low)
            shape = [h + 1 - min(n, 0) for n, h in zip(low, high, strict=True)]
            shape[-1] += array.slack
            extents[array.name] = tuple(max(e, 1) for e in shape)
            if int(np.prod(extents[array.name])) > MOST_ELEMENTS:
                raise Undefined(f"{array.name} is too large")
        return Ranges(origins, extents, self.total, self.idle)

    def touch(self, array: str, axis: int, value: Interval, rank: int) -> None:
        low, high = np.broadcast_to(value[0], (self.count,)), np.broadcast_to(value[1], (self.count,))
        if self.mask is not None:
            low, high = low[self.mask], high[self.mask]
        if not low.size:
            return
        if low.min() < -MOST_ELEMENTS or high.max() > MOST_ELEMENTS:
            raise Undefined(f"a subscript of {array} may be anything")
        least, most = self.least.setdefault(array, [1 << 40] * rank), self.most.setdefault(array, [-(1 << 40)] * rank)
        least[axis], most[axis] = min(least[axis], int(low.min())), max(most[axis], int(high.max()))

    def need(self, holds: Any, what: str) -> None:
        holds = np.broadcast_to(holds, (self.count,))
        if not np.all(holds if self.mask is None else holds[self.mask]):
            raise Undefined(what)

    @contextmanager
    def where(self, holds: Array) -> Iterator[None]:
        outer = self.mask
        inner = np.broadcast_to(holds, (self.count,))
        self.mask = inner if outer is None else outer & inner
        try:
            yield
        finally:
            self.mask = outer

    @contextmanager
    def knowing(self) -> Iterator[None]:
        outer, self.exact = self.exact, True
        try:
            yield
        finally:
            self.exact = outer

    # Expressions

    def type(self, expr: Expr) -> str:
        try:
            return type_of(expr, self.types)
        except KeyError as error:
            raise Undefined(f"{error} isn't declared") from None

    def value(self, expr: Expr) -> Interval:
        match expr:
            case Num(number, type_):
                made = np.float64(number) if is_real(type_) else np.int64(number)
                return made, made
            case Var(name):
                if name not in self.types:
                    raise Undefined(f"{name} isn't declared")
                return self.vars.get(name) or full(self.types[name])
            case Elem(array, subs):
                return self.element(array, subs)
            case Deref(name, step):
                return self.through(name, step)
            case Un(op, operand):
                return self.unary(op, self.value(operand), expr)
            case Bin(op, left, right):
                return self.binary(op, left, right, expr)
            case Cond(test, yes, no):
                low, high = self.truth(test)
                with self.where(high != 0):
                    one = self.value(yes)
                with self.where(low == 0):
                    two = self.value(no)
                both = span(one[0], two[0])[0], span(one[1], two[1])[1]
                low, high = low != 0, high == 0
                return (
                    np.where(low, one[0], np.where(high, two[0], both[0])),
                    np.where(low, one[1], np.where(high, two[1], both[1])),
                )
            case Cast(type_, operand):
                return self.cast(type_, operand)
            case Call(name, args):
                return self.call(name, args, expr)

    def truth(self, expr: Expr) -> Interval:
        outer, self.exact = self.exact, False
        low, high = self.value(expr)
        self.exact = outer
        return ((low > 0) | (high < 0)).astype(np.int64), ((low != 0) | (high != 0)).astype(np.int64)

    def element(self, array: str, subs: tuple[Expr, ...]) -> Interval:
        found = next((a for a in self.program.arrays if a.name == array), None)
        if found is None or len(subs) != found.rank:
            raise Undefined(f"no array {array}")
        with self.knowing():
            values = [self.value(sub) for sub in subs]
        for axis, value in enumerate(values):
            if is_real(self.type(subs[axis])):
                raise Undefined("a subscript is no integer")
            self.touch(array, axis, value, found.rank)
        if found.contents is None or is_real(found.type):
            fixed = is_real(found.type) and found.role in ("in", "table")
            return (np.float64(-1), np.float64(1)) if fixed else full(found.type)
        factor, first, modulus = found.contents
        low, high = values[0]
        if not self.exact:
            return full(found.type)
        if is_exact(values[0]):
            exact = factor * low + first
            exact = exact % modulus if modulus else exact
            return exact, exact
        return (np.int64(0), np.int64(modulus - 1)) if modulus else span(factor * low + first, factor * high + first)

    def through(self, name: str, step: int) -> Interval:
        if name not in self.pointers:
            raise Undefined(f"no pointer {name}")
        array, (low, high) = self.pointers[name]
        down, up = self.moved.get(name, (0, 0))
        if self.moved:
            self.touch(array, 0, (low + down, high + up), 1)
        if step:
            self.advance(name, step)
        fixed = next((a.role in ("in", "table") for a in self.program.arrays if a.name == array), False)
        return (np.float64(-1), np.float64(1)) if fixed and is_real(self.types[name]) else full(self.types[name])

    def advance(self, name: str, by: int) -> None:
        if name not in self.starts:
            raise Undefined(f"{name} isn't declared here")
        at = np.broadcast_to(self.starts[name], (self.count,))
        size = int(at.max(initial=0)) + 1
        times = np.bincount(at, minlength=size) * by
        down, up = self.advanced.get(name, (np.zeros(1, np.int64), np.zeros(1, np.int64)))
        size = max(size, len(down), len(times))
        down, up, times = (np.pad(a, (0, size - len(a))) for a in (down, up, times))
        self.advanced[name] = (down + np.minimum(times, 0), up + np.maximum(times, 0))

    def unary(self, op: str, value: Interval, expr: Expr) -> Interval:
        low, high = value
        if op == "!":
            never = ((low > 0) | (high < 0)).astype(np.int64)
            maybe = ((low != 0) | (high != 0)).astype(np.int64)
            return 1 - maybe, 1 - never
        if op == "~":
            if is_real(self.type(expr)):
                raise Undefined("bits of a float")
            return within((-1 - high, -1 - low), self.type(expr))
        return within((-high, -low), self.type(expr))

    def binary(self, op: str, left: Expr, right: Expr, expr: Expr) -> Interval:
        if op in ("&&", "||"):
            one = self.truth(left)
            with self.where(one[1] != 0 if op == "&&" else one[0] == 0):
                two = self.truth(right)
            return (one[0] & two[0], one[1] & two[1]) if op == "&&" else (one[0] | two[0], one[1] | two[1])
        one, two = self.value(left), self.value(right)
        types = self.type(left), self.type(right)
        if op in COMPARISONS:
            return compare(op, one, two, common(*types))
        type_ = self.type(expr)
        if is_real(type_):
            return real(op, one, two)
        if any(is_real(t) for t in types):
            raise Undefined("bits of a float")
        # A negative value converted to an unsigned type.
        one, two = within(one, type_), (two if op in ("<<", ">>") else within(two, type_))
        return within(self.whole(op, one, two, type_), type_)

    def whole(self, op: str, one: Interval, two: Interval, type_: str) -> Interval:
        small = is_small(one) and is_small(two)
        anything = full(type_)
        match op:
            case "+":
                return (one[0] + two[0], one[1] + two[1]) if small else anything
            case "-":
                return (one[0] - two[1], one[1] - two[0]) if small else anything
            case "*":
                return span(*(a * b for a in one for b in two)) if small else anything
            case "/" | "%":
                self.need((two[0] > 0) | (two[1] < -1), "a quotient by zero or -1")
                return quotient(one, two) if op == "/" else remainder(one, two)
            case "<<" | ">>":
                self.need((two[0] >= 0) & (two[1] < BITS[type_][0]), "a shift too far")
                if not small or np.any(two[1] > 30) or (op == "<<" and np.any(one[0] < 0)):
                    return anything
                at = [np.clip(t, 0, 30) for t in two]
                return span(*(a << b if op == "<<" else a >> b for a in one for b in at))
        return bits(op, one, two, anything)

    def cast(self, type_: str, operand: Expr) -> Interval:
        low, high = self.value(operand)
        if is_real(type_):
            return np.asarray(low, np.float64), np.asarray(high, np.float64)
        if is_real(self.type(operand)):
            bits, signed = BITS[type_]
            least, most = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (-1.0, 2.0**bits)
            self.need((low > least) & (high < most), "a float that doesn't fit its integer")
            if np.any(np.isinf(low)) or np.any(np.isinf(high)):
                return full(type_)
            return np.trunc(low).astype(np.int64), np.trunc(high).astype(np.int64)
        return within((low, high), type_)

    def call(self, name: str, args: tuple[Expr, ...], expr: Expr) -> Interval:
        values = [self.value(arg) for arg in args]
        helper = next((h for h in self.program.helpers if h.name == name), None)
        if helper is not None:
            if len(args) != len(helper.params):
                raise Undefined("a call with other arguments")
            before = dict(self.vars)
            for (type_, param), arg, value in zip(helper.params, args, values, strict=True):
                if is_real(self.type(arg)) and not is_real(type_):
                    raise Undefined("a float for an integer")
                self.vars[param] = within(value, type_) if not is_real(type_) else value
            found = self.value(Cast(helper.type, helper.value))
            self.vars = before
            return found
        if name in ("abs", "labs"):
            if is_real(self.type(args[0])):
                raise Undefined("abs of a float")
            low, high = within(values[0], self.type(expr))
            least = np.where((low <= 0) & (high >= 0), 0, np.minimum(abs(low), abs(high)))
            return least, np.maximum(abs(low), abs(high))
        lows, highs = [np.asarray(v[0], np.float64) for v in values], [np.asarray(v[1], np.float64) for v in values]
        match name.removesuffix("f"):
            case "fmin":
                return np.minimum(*lows), np.minimum(*highs)
            case "fmax":
                return np.maximum(*lows), np.maximum(*highs)
            case "fabs":
                return np.float64(0), np.maximum(abs(lows[0]), abs(highs[0]))
        return full("double")

    # Statements

    def walk(self, body: tuple[Stmt, ...]) -> None:
        """A block: what it declares is gone afterwards."""
        before, starts, pointers = dict(self.vars), dict(self.starts), dict(self.pointers)
        for stmt in body:
            self.total += self.count
            if self.total > 8 * MOST_POINTS:
                raise Undefined("it takes too long")
            self.stmt(stmt)
        self.vars, self.starts, self.pointers = before, starts, pointers

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Assign(target, op, value):
                given = value if op == "=" else Bin(op.removesuffix("="), target, value)
                self.value(Cast(self.type(target), given))
                self.value(target)
            case Local(type_, name, value):
                with self.knowing():
                    found = self.value(Cast(type_, value))
                self.starts[name] = np.arange(self.count)
                down, up = self.moved.get(name, (0, 0))
                fixed = name not in self.assigned and not is_real(type_)
                self.vars[name] = (found[0] + down, found[1] + up) if fixed else full(type_)
            case Pointer(name, array, start):
                self.starts[name] = np.arange(self.count)
                if all(a.name != array or a.rank != 1 for a in self.program.arrays):
                    raise Undefined(f"no array {array} of one axis")
                found = self.value(start)
                self.pointers[name] = array, found
                self.touch(array, 0, found, 1)
                if self.moved:
                    down, up = self.moved.get(name, (0, 0))
                    self.touch(array, 0, (found[0] + down, found[1] + up), 1)
            case Advance(name, by):
                self.advance(name, by)
            case If(test, yes, no):
                low, high = self.truth(test)
                for holds, part in ((high != 0, yes), (low == 0, no)):
                    with self.points(np.nonzero(np.broadcast_to(holds, (self.count,)))[0], {}):
                        self.walk(part)
            case For():
                self.loop(stmt)
            case Jump(kind, _) if kind in ("break", "continue") and not self.loops:
                raise Undefined("a jump outside of loops")

    @contextmanager
    def points(self, index: Array, more: dict[str, Interval]) -> Iterator[None]:
        """Within, there are these of the points."""
        outer, count = (self.vars, self.starts, self.pointers), self.count
        taken = {name: np.broadcast_to(at, (count,))[index] for name, at in self.starts.items()}

        def some(value: Interval) -> Interval:
            return (
                (value[0], value[1])
                if np.ndim(value[0]) == np.ndim(value[1]) == 0
                else tuple(np.broadcast_to(end, (count,))[index] for end in value)
            )  # type: ignore[return-value]

        self.vars = {name: some(v) for name, v in self.vars.items()} | more
        self.pointers = {name: (array, some(v)) for name, (array, v) in self.pointers.items()}
        self.starts, self.count = taken, len(index)
        try:
            yield
        finally:
            (self.vars, self.starts, self.pointers), self.count = outer, count

    def loop(self, loop: For) -> None:
        with self.knowing():
            low = self.value(loop.low)
            highs = [self.value(h) for h in loop.highs]
        if any(is_real(self.type(h)) for h in (loop.low, *loop.highs)) or not loop.highs:
            raise Undefined("a bound that is no integer")
        index, values = self.iterations(loop, low, highs)
        if any(isinstance(n, Assign) and n.target == Var(loop.name) for n in walk_tree(loop.body)):
            raise Undefined("an iterator that is assigned")
        self.loops += 1
        self.idle += not len(index)
        with self.points(index, {loop.name: (values, values)}):
            self.walk(loop.body)
        self.loops -= 1
        if loop.style == "outer":
            ends = [v for v in (low[0], low[1], *(e for h in highs for e in h))]
            least, most = span(*ends)
            self.vars[loop.name] = least - abs(loop.step), most + abs(loop.step)
        else:
            self.vars.pop(loop.name, None)

    def iterations(self, loop: For, low: Interval, highs: list[Interval]) -> tuple[Array, Array]:
        """For each iteration of all points, the point that it belongs to and the iterator."""
        if loop.style in ("double", "halve"):
            return self.powers(loop, low, highs)
        sign = 1 if loop.step > 0 else -1
        if loop.op not in (("<", "<=", "!=") if sign > 0 else (">", ">=", "!=")) or loop.step == 0:
            raise Undefined("a loop that runs away")
        near = (lambda v: v[1]) if sign > 0 else (lambda v: -v[0])
        last = near(highs[0])
        for high in highs[1:]:
            last = np.minimum(last, near(high))
        last = last if loop.op in ("<=", ">=") else last - 1
        first = low[0] if sign > 0 else -low[1]
        step = abs(loop.step)
        if loop.op == "!=":
            exact = all(is_exact(v) for v in (low, *highs)) and len(highs) == 1
            self.need(exact and step == 1 and np.all(last + 1 >= first), "a loop that may not end")
        if not is_exact(low):
            step = 1
        if loop.style == "do":
            last = np.maximum(last, first)
        first, last = (np.broadcast_to(v, (self.count,)) for v in (first, last))
        if np.any(last - first > MOST_POINTS):
            raise Undefined("a loop without end")
        counts = np.maximum((last - first) // step + 1, 0)
        total = int(counts.sum())
        if total > MOST_POINTS:
            raise Undefined("too many iterations")
        index = np.repeat(np.arange(self.count), counts)
        offset = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return index, sign * (first[index] + step * offset)

    def powers(self, loop: For, low: Interval, highs: list[Interval]) -> tuple[Array, Array]:
        ends = (low, *highs)
        if not all(is_exact(v) and np.all(v[0] >= 1) and np.all(v[0] < 4096) for v in ends):
            raise Undefined("powers of what isn't known")
        if loop.op not in (("<", "<=") if loop.style == "double" else (">", ">=")) or len(highs) != 1:
            raise Undefined("a loop that runs away")
        index, values = [], []
        for point, (at, end) in enumerate(np.broadcast(*(np.broadcast_to(v[0], (self.count,)) for v in ends))):
            at, end = int(at), int(end)
            while {"<": at < end, "<=": at <= end, ">": at > end, ">=": at >= end}[loop.op]:
                index.append(point)
                values.append(at)
                at = at * 2 if loop.style == "double" else at // 2
        return np.array(index, np.int64), np.array(values, np.int64)
