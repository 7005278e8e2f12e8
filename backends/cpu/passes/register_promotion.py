"""Memory that a loop uses at one place all along, in registers while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from backends.cpu.ir.alias_analysis import Key, Ranges, disjoint, key_of, names_in, nonempty
from backends.cpu.ir.context import Lowering
from backends.cpu.ir.identity import identity
from backends.cpu.ir.statements import (
    Accumulate,
    Cell,
    Define,
    Effect,
    Get,
    Guard,
    Index,
    Let,
    Loop,
    Op,
    Put,
    ReductionOp,
    Set,
    Splat,
    Stmt,
    Temp,
    Value,
    Var,
    body_of,
    parts,
    statements,
    stored,
    with_parts,
)
from plant_core.ir.accesses import accesses, children
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Alloc, Binary, DType, Expr, Free, Iter, Param

_FREE = 4
_MOST_SCALARS = 24


def promoted(low: Lowering, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Cells that stay the same through a loop, kept in variables.

    Before: `for k { c[0:16] = c[0:16] + a[k] * b[k][0:16]; }`.
    After:  `v = c[0:16]; for k { v = v + a[k] * b[k][0:16]; } c[0:16] = v;`.
    Requires: nothing. Ensures: the same values, except for the order of `Accumulate`s; a loop that doesn't run
    touches no memory, and no memory is written that wasn't.
    """
    return _Promotion(low).body(body, {})


@dataclass(frozen=True, slots=True)
class _Touch:
    """One access: `certain` where every iteration makes it; `key` is None where it may be any element."""

    cell: Cell
    key: Key | None
    lanes: int
    dtype: DType
    kind: str
    certain: bool
    ranges: Ranges
    active: Expr | None = None


@dataclass(slots=True)
class _Promotion:
    low: Lowering

    def body(self, body: tuple[Stmt, ...], ranges: Ranges) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Loop():
                    made += self.loop(stmt, ranges)
                case Guard(condition=condition):
                    made.append(Guard(condition, self.body(stmt.body, ranges)))
                case _:
                    made.append(stmt)
        return tuple(made)

    def loop(self, loop: Loop, ranges: Ranges) -> tuple[Stmt, ...]:
        inside = {**ranges, loop.iterator: (loop.lower, loop.upper)}
        loop = replace(loop, body=self.body(loop.body, inside))
        if loop.kind != "plain":
            return (loop,)
        touches = _touches(loop.body, inside)
        if touches is None:
            return (loop,)
        chosen = self.choose(loop, touches)
        if not chosen:
            return (loop,)
        before: list[Stmt] = []
        after: list[Stmt] = []
        rewrite = _Rewrite()
        for group in chosen:
            self.promote(group, rewrite, before, after)
        body = tuple(rewrite.stmt(s) for s in loop.body)
        after = [*rewrite.after(), *after]
        whole = (*before, *rewrite.before, replace(loop, body=body), *after)
        if nonempty(loop.lower, loop.upper, ranges):
            return whole
        return (Guard(Binary("lt", loop.lower, loop.upper, "i32"), whole),)

    def choose(self, loop: Loop, touches: list[_Touch]) -> list[list[_Touch]]:
        """The cells to promote: all their accesses, for each."""
        bound = {loop.iterator, *_bound(loop.body)}
        groups: dict[tuple[Key, int, Expr | None], list[_Touch]] = {}
        for touch in touches:
            if touch.key is not None and touch.kind != "opaque" and not (names_in(touch.key) | _named(touch)) & bound:
                groups.setdefault((touch.key, touch.lanes, touch.active), []).append(touch)
        inner = {s.action.buf for s in statements(loop.body) if isinstance(s, Effect) and isinstance(s.action, Alloc)}
        groups = {key: group for key, group in groups.items() if key[0][0] not in inner}
        good = [g for (key, lanes, _), g in groups.items() if self.alone(key, lanes, g, touches)]
        written = [g for g in good if any(t.kind != "get" for t in g)]
        read = [g for g in good if all(t.kind == "get" for t in g)]
        registers = (32 if self.low.vector_bytes >= 64 else 16) - _FREE - _live(loop.body, self.low.vector_bytes)
        scalars = _MOST_SCALARS
        chosen = []
        for group in (*written, *read):
            one = group[0]
            cost = len(group) if _sums(group) else _registers(one.lanes, one.dtype, self.low.vector_bytes)
            if cost > registers or (not cost and not scalars):
                continue
            registers -= cost
            scalars -= 0 if cost else 1
            chosen.append(group)
        return chosen

    def alone(self, key: Key, lanes: int, group: list[_Touch], touches: list[_Touch]) -> bool:
        """Whether the loop provably touches the cell only through `group`, and surely does."""
        if not any(t.certain for t in group):
            return False
        writes = any(t.kind != "get" for t in group)
        for other in touches:
            own = other.key == key and other.lanes == lanes and other.active == group[0].active
            if other.cell.buf != key[0] or (own and other.kind != "opaque"):
                continue
            if not writes and other.kind in ("get", "opaque"):
                continue
            if other.key is None or other.kind == "opaque":
                return False
            if not disjoint(key, lanes, other.key, other.lanes, other.ranges):
                return False
        return True

    def promote(self, group: list[_Touch], rewrite: _Rewrite, before: list[Stmt], after: list[Stmt]) -> None:
        first = group[0]
        assert first.key is not None
        if _sums(group):
            rewrite.sums[first.key] = _Sums(self.low, first.cell)
            return
        temp = Temp(self.low.fresh(f"{first.cell.buf}_"), first.dtype, first.lanes)
        load = Get(first.cell, first.dtype, first.lanes, first.active)
        if all(t.kind == "get" for t in group):
            before.append(Let(temp, load))
        else:
            before.append(Var(temp, load))
            after.append(Put(first.cell, temp, first.active))
        rewrite.temps[first.key, first.lanes, first.active] = temp


# --- what a loop touches ------------------------------------------------------------------------------------------


def _touches(body: tuple[Stmt, ...], ranges: Ranges, certain: bool = True) -> list[_Touch] | None:
    """Every access to memory; None where something in it can't be seen through."""
    found: list[_Touch] = []
    for stmt in body:
        value = stored(stmt)
        if value is not None:
            found += _reads(value, ranges, certain)
            if any(isinstance(v, Op) and v.name.startswith("text:") for v in _all(value)):
                return None
        match stmt:
            case Put(cell=cell, value=value, active=active):
                found += _cell(cell, value.lanes, value.dtype, "put", certain, ranges, active)
            case Accumulate(cell=cell, op=op, value=value):
                found += _cell(cell, 1, value.dtype, f"acc:{op}", certain, ranges)
            case Loop(lower=lower, upper=upper):
                if stmt.kind == "parallel":
                    return None
                found += _opaque((lower, upper), ranges)
                inside = {**ranges, stmt.iterator: (lower, upper)}
                inner = _touches(stmt.body, inside, certain and nonempty(lower, upper, ranges))
                if inner is None:
                    return None
                found += inner
            case Guard(condition=condition):
                found += _opaque((condition,), ranges)
                inner = _touches(stmt.body, ranges, False)
                if inner is None:
                    return None
                found += inner
            case Effect(action=action) if not isinstance(action, Alloc | Free):
                return None
    return found


def _all(value: Value) -> Iterable[Value]:
    yield value
    for part in parts(value):
        yield from _all(part)


def _cell(
    cell: Cell, lanes: int, dtype: DType, kind: str, certain: bool, ranges: Ranges, active: Expr | None = None
) -> list[_Touch]:
    inside = _opaque(cell.indices, ranges)
    return [*inside, _Touch(cell, key_of(cell), lanes, dtype, kind, certain, ranges, active)]


def _named(touch: _Touch) -> set[str]:
    return set() if touch.active is None else _names(touch.active)


def _names(expr: Expr) -> set[str]:
    own = {expr.name} if isinstance(expr, Iter | Param) else set()
    return own.union(*map(_names, children(expr)))


def _opaque(exprs: Iterable[Expr], ranges: Ranges) -> list[_Touch]:
    """Reads inside subscripts, bounds and conditions, which stay as they are."""
    found = []
    for expr in exprs:
        for access in accesses(expr):
            cell = Cell(access.buf, access.indices)
            found.append(_Touch(cell, key_of(cell), 1, access.dtype, "opaque", False, ranges))
    return found


def _reads(value: Value, ranges: Ranges, certain: bool) -> list[_Touch]:
    match value:
        case Get(cell=cell, dtype=dtype, lanes=lanes, active=active):
            return _cell(cell, lanes, dtype, "get", certain, ranges, active)
        case Index(expr=expr):
            return _opaque((expr,), ranges)
        case Op(name="select", args=(test, *arms)) if test.lanes == 1:
            return [*_reads(test, ranges, certain), *(t for a in arms for t in _reads(a, ranges, False))]
        case Op(name="land" | "lor", lanes=1, args=(left, right)):
            return [*_reads(left, ranges, certain), *_reads(right, ranges, False)]
        case _:
            return [t for part in parts(value) for t in _reads(part, ranges, certain)]


def _bound(body: tuple[Stmt, ...]) -> set[str]:
    """Names that the body gives a meaning."""
    found = set()
    for stmt in statements(body):
        match stmt:
            case Loop(iterator=name) | Define(name=name):
                found.add(name)
            case _:
                pass
    return found


def _live(body: tuple[Stmt, ...], vector_bytes: int) -> int:
    """Registers that vectors kept through loops in the body take already."""
    found = {s.temp for s in statements(body) if isinstance(s, Var) and s.temp.lanes > 1}
    return sum(_registers(t.lanes, t.dtype, vector_bytes) for t in found)


def _registers(lanes: int, dtype: DType, vector_bytes: int) -> int:
    """Vector registers of one value; scalars are counted apart."""
    return max(1, lanes * size_of(dtype) // vector_bytes) if lanes > 1 else 0


def _sums(group: list[_Touch]) -> bool:
    """Whether all accesses are steps of one reduction."""
    return group[0].kind.startswith("acc") and all(t.kind == group[0].kind for t in group)


# --- the loop with its cells replaced -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Sums:
    """The accumulators of one cell, one for each statement that adds to it."""

    low: Lowering
    cell: Cell
    made: list[tuple[ReductionOp, Temp]] = field(default_factory=list)

    def accumulate(self, op: ReductionOp, value: Value) -> tuple[Temp, Stmt]:
        temp = Temp(self.low.fresh("sum"), value.dtype, value.lanes)
        self.made.append((op, temp))
        return temp, Set(temp, Op(op, (temp, value), value.dtype, value.lanes))

    def after(self) -> list[Stmt]:
        """Accumulators of one width are combined first, so that there is one reduction over lanes for each."""
        found: dict[tuple[ReductionOp, int], Temp | Op] = {}
        for op, temp in self.made:
            held = found.get((op, temp.lanes))
            found[op, temp.lanes] = temp if held is None else Op(op, (held, temp), temp.dtype, temp.lanes)
        return [Accumulate(self.cell, op, value) for (op, _), value in found.items()]


@dataclass(slots=True)
class _Rewrite:
    temps: dict[tuple[Key, int, Expr | None], Temp] = field(default_factory=dict)
    sums: dict[Key, _Sums] = field(default_factory=dict)
    before: list[Stmt] = field(default_factory=list)

    def after(self) -> list[Stmt]:
        return [s for sums in self.sums.values() for s in sums.after()]

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Put(cell=cell, value=value, active=active):
                new = self.value(value)
                temp = self.temp(cell, value.lanes, active)
                return Put(cell, new, active) if temp is None else Set(temp, new)
            case Accumulate(cell=cell, op=op, value=value):
                return self.accumulate(cell, op, self.value(value))
            case Let(value=value) | Var(value=value) | Set(value=value) | Define(value=value):
                return replace(stmt, value=self.value(value))
            case Loop() | Guard():
                return replace(stmt, body=tuple(self.stmt(s) for s in body_of(stmt)))
            case _:
                return stmt

    def accumulate(self, cell: Cell, op: ReductionOp, value: Value) -> Stmt:
        key = key_of(cell)
        sums = None if key is None else self.sums.get(key)
        if sums is not None:
            temp, made = sums.accumulate(op, value)
            start: Value = identity(op, value.dtype)
            self.before.append(Var(temp, start if value.lanes == 1 else Splat(start, value.lanes)))
            return made
        held = self.temp(cell, 1)
        if held is None:
            return Accumulate(cell, op, value)
        return Set(held, Op(op, (held, reduced(op, value)), held.dtype))

    def temp(self, cell: Cell, lanes: int, active: Expr | None = None) -> Temp | None:
        key = key_of(cell)
        return None if key is None else self.temps.get((key, lanes, active))

    def value(self, value: Value) -> Value:
        if isinstance(value, Get):
            return self.temp(value.cell, value.lanes, value.active) or value
        inner = parts(value)
        return with_parts(value, tuple(map(self.value, inner))) if inner else value


def reduced(op: ReductionOp, value: Value) -> Value:
    """All lanes of a vector combined."""
    return value if value.lanes == 1 else Op(f"reduce:{op}", (value,), value.dtype)


def settled(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What is left of reductions, as updates of memory.

    Before: `accumulate s += v;`. After: `s = s + reduce(v);`. Neighbouring ones of a cell share one reduction.
    Requires: nothing. Ensures: no `Accumulate` is left.
    """
    made: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Accumulate():
                last = made[-1] if made else None
                if isinstance(last, Accumulate) and (last.cell, last.op) == (stmt.cell, stmt.op):
                    if last.value.lanes == stmt.value.lanes:
                        both = Op(stmt.op, (last.value, stmt.value), stmt.value.dtype, stmt.value.lanes)
                        made[-1] = replace(stmt, value=both)
                        continue
                made.append(stmt)
            case Loop() | Guard():
                made.append(replace(stmt, body=settled(stmt.body)))
            case _:
                made.append(stmt)
    return tuple(map(_update, made))


def _update(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Accumulate):
        return stmt
    dtype = stmt.value.dtype
    return Put(stmt.cell, Op(stmt.op, (Get(stmt.cell, dtype, 1), reduced(stmt.op, stmt.value)), dtype))
