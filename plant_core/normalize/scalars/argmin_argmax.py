"""Conditional assignments of which the last one counts, and extrema with their places, as reductions of positions.

    for i { if (c(i)) last = e(i); }                    for i { if (a(i) > x) { x = a(i); p = e(i); } }

becomes (the extremum's loop also runs for its place: the first iteration that has it, the last one where `>=`)

    at = -1;                                            x0 = x; at = INT_MAX;
    for i { at = max(at, c(i) ? i : -1); }              for i { x = max(x, a(i)); }
    if (at >= 0) last = e(at);                          for i { at = min(at, a(i) >= x ? i : INT_MAX); }
                                                        if (x > x0) p = e(at);
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import islpy as isl

from plant_core.ir.accesses import accesses, combined, domain_of, integer, substitute
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Binary, BinaryOp, Buf, Comp, DType, Expr, Func, Iter, Load, Select, Val
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map, shared_depth
from plant_core.normalize.scalars.min_max_idioms import plain, unwidened

LARGEST = (1 << 31) - 1
_TURNED: dict[str, BinaryOp] = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}


def with_positions(func: Func, *, reassoc: bool) -> Func:
    """`func` with the two idioms of the module's head taken apart.

    Requires: 2d+1 schedules of unit step. Ensures: the same contents of every parameter; a float extremum counts only
    where `reassoc`, as it may differ where NaNs are met. Nothing else may read or write the assigned variables within
    the loops, nor write what must be read again after them.
    """
    while not func.effects and (group := _Finder(func, reassoc).first()) is not None:
        func = _Rewriter(func, group).rewritten()
    return func


@dataclass(frozen=True, slots=True)
class _Extremum:
    """`if (value op best) best = value`, by the Comps `test` and `best`; op is gt, ge, lt or le."""

    test: Comp
    best: Comp
    value: Expr
    op: BinaryOp


@dataclass(frozen=True, slots=True)
class _Group:
    """Comps `target = condition ? value : target` in one body, made in the loops from `depth` on."""

    places: tuple[Comp, ...]
    condition: Expr
    depth: int
    extremum: _Extremum | None


class _Finder:
    def __init__(self, func: Func, reassoc: bool) -> None:
        self.func = func
        self.reassoc = reassoc
        self.at = {comp.name: position(comp) for comp in func.comps}
        self.scalars = {b.name for b in func.bufs if b.kind == "local" and b.shape == ()}

    def first(self) -> _Group | None:
        groups: dict[tuple[tuple[int, ...], Expr], list[Comp]] = {}
        for comp in self.func.comps:
            match comp.value:
                case Select(condition, _, Load() as old, _) if comp.iters and plain(old) == plain(comp.target):
                    if comp.target.buf in self.scalars:
                        key = (self.at[comp.name].constants[:-1], plain(condition))
                        groups.setdefault(key, []).append(comp)
        for (_, condition), members in groups.items():
            for group in (self._extremum(condition, members), *(self._last(condition, m) for m in members)):
                if group is not None and self._fits(group):
                    return group
        return None

    def _last(self, condition: Expr, comp: Comp) -> _Group | None:
        return _Group((comp,), condition, self._depth([comp]), None)

    def _extremum(self, condition: Expr, members: list[Comp]) -> _Group | None:
        test = self._test(condition)
        if test is None or not isinstance(test.value, Binary) or test.value.op not in _TURNED:
            return None
        for best in members:
            found = self._compared(test, best)
            others = tuple(m for m in members if m is not best)
            if (
                found is None
                or not others
                or self._early(test, members)
                or (is_float(best.target.dtype) and not self.reassoc)
            ):
                continue
            users = {c.name for c in self.func.comps if _reads(c.value, {test.target.buf})}
            if users == {m.name for m in members}:
                return _Group(others, condition, self._depth([test, *members]), found)
        return None

    def _test(self, condition: Expr) -> Comp | None:
        """The Comp in the same body that gives a condition its value, where it is a variable tested for zero."""
        match condition:
            case Binary("ne", Load(name, ()), Val(0)) if name in self.scalars:
                writers = [c for c in self.func.comps if c.target.buf == name]
                return writers[0] if len(writers) == 1 else None
        return None

    def _compared(self, test: Comp, best: Comp) -> _Extremum | None:
        if not isinstance(test.value, Binary) or not isinstance(best.value, Select):
            return None
        taken, old = plain(best.value.true), plain(best.target)
        dtype = best.target.dtype
        left, right = (plain(unwidened(side, dtype)) for side in (test.value.left, test.value.right))
        there, here = self.at[test.name].constants, self.at[best.name].constants
        if there[:-1] != here[:-1]:
            return None
        if (left, right) == (taken, old):
            return _Extremum(test, best, best.value.true, test.value.op)
        if (left, right) == (old, taken):
            return _Extremum(test, best, best.value.true, _TURNED[test.value.op])
        return None

    def _early(self, test: Comp, members: list[Comp]) -> bool:
        return any(self.at[m.name].constants[-1] < self.at[test.name].constants[-1] for m in members)

    def _depth(self, members: Sequence[Comp]) -> int:
        """How many outer loops each have the group's variables to themselves."""
        names = {m.name for m in members}
        touched = {m.target.buf for m in members}
        here = self.at[members[0].name]
        depth = 0
        for comp in self.func.comps:
            if comp.name not in names and (comp.target.buf in touched or _reads(comp.value, touched)):
                depth = max(depth, shared_depth(here, self.at[comp.name]))
        return depth

    def _fits(self, group: _Group) -> bool:
        comp = group.places[0]
        place = self.at[comp.name]
        inner = comp.iters[group.depth :]
        if not inner or not _countable(comp, group.depth):
            return False
        if any(line != Line(0, ((name, 1),)) for name, line in zip(comp.iters, place.loops, strict=True)):
            return False
        members = [*group.places, *((group.extremum.test, group.extremum.best) if group.extremum else ())]
        domains = [isl.Set(str(domain_of(m).set_tuple_name("X"))) for m in members]
        if any(m.iters != comp.iters for m in members) or not all(d.is_equal(domains[0]) for d in domains):
            return False
        assigned = {m.target.buf for m in members}
        if len(assigned) < len(members):
            return False
        again = [m.value.true for m in group.places if isinstance(m.value, Select)]
        again += [group.extremum.value] if group.extremum else []
        if any(_reads(e, assigned) for e in again) or (not group.extremum and _reads(group.condition, assigned)):
            return False
        read = {a.buf for e in again for a in accesses(e)}
        together = (c for c in self.func.comps if shared_depth(place, self.at[c.name]) > group.depth)
        return not any(c.target.buf in read for c in together)


def _reads(expr: Expr, names: set[str]) -> bool:
    return any(a.buf in names for a in accesses(expr))


def _countable(comp: Comp, depth: int) -> bool:
    """Whether the iterations of the loops from `depth` on can be numbered, in 31 bits."""
    found = [_extent(comp, k) for k in range(depth, len(comp.iters))]
    if len(found) == 1:
        return (low := _low(comp, depth)) is not None and (low >= 0 or found[0] is not None)
    return all(found) and prod(count for _, count in filter(None, found)) <= LARGEST


def _low(comp: Comp, dim: int) -> int | None:
    low = domain_of(comp).dim_min_val(dim)
    return low.to_python() if low.is_int() else None


def _extent(comp: Comp, dim: int) -> tuple[int, int] | None:
    """The least iteration of a loop, and how many there are up to the greatest."""
    low, high = domain_of(comp).dim_min_val(dim), domain_of(comp).dim_max_val(dim)
    return (low.to_python(), high.to_python() - low.to_python() + 1) if low.is_int() and high.is_int() else None


class _Rewriter:
    """One group taken apart. Textual positions c become 4c + 1, which leaves room for Comps before and after."""

    def __init__(self, func: Func, group: _Group) -> None:
        self.func = func
        self.group = group
        self.model = group.places[0]
        self.at = {comp.name: _roomy(position(comp)) for comp in func.comps}
        self.taken = {b.name for b in func.bufs} | {p.name for p in func.params} | {c.name for c in func.comps}
        self.bufs = list[Buf]()

    def rewritten(self) -> Func:
        group, extremum = self.group, self.group.extremum
        before, within, after = list[Comp](), dict[str, Comp](), list[Comp]()
        first = extremum is not None and extremum.op in ("gt", "lt")
        none = LARGEST if first else -1
        at = self._variable("at", "i32")
        before.append(self._outside("at", at, integer(none), 0))
        valid: Expr = Binary("ge", at, integer(0), "i32")
        if extremum is None:
            found = self._inside(at, self._seen(at, group.condition, first), self.at[self.model.name])
            within[self.model.name] = found
        else:
            best = extremum.best.target
            if first:
                start = self._variable(best.buf, best.dtype)
                before.append(self._outside(best.buf, start, best, 0))
                valid = Binary(extremum.op, best, start, "i32")
            op: BinaryOp = "max" if extremum.op in ("gt", "ge") else "min"
            value = Binary(op, best, extremum.value, best.dtype)
            within[extremum.best.name] = replace(extremum.best, value=value)
            # No value is beyond the extremum: what reaches it is equal to it.
            same = Binary("ge" if op == "max" else "le", extremum.value, best, "i32")
            depth = group.depth
            own = self.at[self.model.name].constants
            again = (*own[:depth], own[depth] + 1, *(0 for _ in own[depth + 1 :]))
            place = Position(again, self.at[self.model.name].loops)
            after.append(self._inside(at, self._seen(at, same, first), place))
        results = {comp.name: self._result(comp, at, valid) for comp in group.places}
        return self._assembled(before, within, after, results, extremum.test.name if extremum else None)

    def _assembled(
        self, before: list[Comp], within: dict[str, Comp], after: list[Comp], results: dict[str, Comp], gone: str | None
    ) -> Func:
        members = [self.model.name, *results, *within, *([gone] if gone else [])]
        order = [comp.name for comp in self.func.comps]
        first, last = min(map(order.index, members)), max(map(order.index, members))
        comps = list[Comp]()
        for number, comp in enumerate(self.func.comps):
            if number == first:
                comps += before
            if comp.name in within:
                comps.append(within[comp.name])
            elif comp.name not in results and comp.name != gone:
                comps.append(comp)
            if number == last:
                comps += [*after, *results.values()]
        length = max(2 * len(comp.iters) + 1 for comp in comps)
        comps = [self._timed(comp, length) for comp in comps]
        return replace(self.func, comps=tuple(comps), bufs=(*self.func.bufs, *self.bufs))

    def _timed(self, comp: Comp, length: int) -> Comp:
        place = self.at[comp.name]
        return replace(comp, schedule=schedule_map(comp, place, length).intersect_domain(comp.domain))

    def _variable(self, name: str, dtype: DType) -> Load:
        name = self._fresh(name)
        self.bufs.append(Buf(name, dtype, (), "local", loc=self.model.loc))
        return Load(name, (), dtype, self.model.loc)

    def _fresh(self, base: str) -> str:
        number = 1
        while f"{base}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{base}_{number}")
        return f"{base}_{number}"

    def _seen(self, at: Load, condition: Expr, first: bool) -> Expr:
        """The position reached: the least one that the condition holds at, or the greatest."""
        none, op = (LARGEST, "min") if first else (-1, "max")
        here = Select(condition, self._number(), integer(none), "i32")
        return Binary("min" if op == "min" else "max", at, here, "i32")

    def _number(self) -> Expr:
        """The iteration's number among those of the loops that the group is made in, counted from 0, in order."""
        depth, names = self.group.depth, self.model.iters
        total: Expr = combined((Iter(names[depth]), 1), (integer(-(_low(self.model, depth) or 0)), 1))
        for k in range(self.group.depth + 1, len(self.model.iters)):
            low, count = _extent(self.model, k) or (0, 1)
            total = combined((total, count), (Iter(names[k]), 1), (integer(-low), 1))
        return total

    def _iterators(self, at: Expr) -> dict[str, Expr]:
        """Each of those loops' iterators in the iteration of the given number."""
        found = dict[str, Expr]()
        for k in reversed(range(self.group.depth + 1, len(self.model.iters))):
            low, count = _extent(self.model, k) or (0, 1)
            found[self.model.iters[k]] = _plus(Binary("mod", at, integer(count), "i32"), low)
            at = Binary("div", at, integer(count), "i32")
        depth = self.group.depth
        found[self.model.iters[depth]] = _plus(at, _low(self.model, depth) or 0)
        return found

    def _outside(self, base: str, target: Load, value: Expr, turn: int) -> Comp:
        """A Comp of the loops around the group's: before it with turn 0, after it with turn 3."""
        depth = self.group.depth
        model = self.at[self.model.name]
        name = self._fresh(f"{self.model.name}_{base}")
        domain = domain_of(self.model).project_out(isl.dim_type.set, depth, len(self.model.iters) - depth)
        domain = domain.set_tuple_name(name)
        place = (*model.constants[:depth], model.constants[depth] - 1 + turn)
        self.at[name] = Position(place, model.loops[:depth])
        blank = isl.Map.from_domain_and_range(domain, isl.Set("{ [0] }"))
        return Comp(name, self.model.iters[:depth], domain, blank, target, value, self.model.loc)

    def _inside(self, target: Load, value: Expr, place: Position) -> Comp:
        name = self._fresh(f"{self.model.name}_{target.buf}")
        self.at[name] = place
        domain = domain_of(self.model).set_tuple_name(name)
        return replace(self.model, name=name, domain=domain, target=target, value=value)

    def _result(self, comp: Comp, at: Load, valid: Expr) -> Comp:
        value = comp.value
        if not isinstance(value, Select):
            return comp
        taken = substitute(value.true, self._iterators(at))
        made = self._outside(comp.target.buf, comp.target, Select(valid, taken, comp.target, value.dtype), 3)
        return replace(made, loc=comp.loc)


def _plus(expr: Expr, number: int) -> Expr:
    return Binary("add", expr, integer(number), "i32") if number else expr


def _roomy(place: Position) -> Position:
    return Position(tuple(4 * c + 1 for c in place.constants), place.loops)
