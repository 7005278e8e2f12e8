"""Collects the statements in text order and makes the `Func` of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import islpy as isl

from dspgen.errors import Problem, SourceError
from dspgen.frontend.scop.affine_sets import Nest, dim_name
from dspgen.frontend.scop.expr_walk import accesses, parameters
from dspgen.frontend.scop.guarded_reads import Case, cases
from plant_core.ir.func import Buf, Comp, Expr, Func, Load, ScalarParam
from plant_core.support.location import Loc

Time = tuple[int | tuple[str, int], ...]
"""A place in the program's order: statement positions, and iterators with the sign of their step."""


@dataclass(frozen=True, slots=True)
class _Statement:
    case: Case
    time: Time
    loc: Loc
    defines: str | None = None


@dataclass(slots=True)
class Recorder:
    """`time` is where the loops around begin; `counts` has the number of statements so far in each open loop."""

    bufs: dict[str, Buf] = field(default_factory=dict)
    time: Time = ()
    counts: list[int] = field(default_factory=lambda: [0])
    problems: list[Problem] = field(default_factory=list)
    statements: list[_Statement] = field(default_factory=list)

    def report(self, error: SourceError) -> None:
        self.problems += [p for p in error.problems if p not in self.problems]

    def position(self) -> int:
        """A new place in the innermost open loop."""
        self.counts[-1] += 1
        return self.counts[-1] - 1

    def record(
        self, nest: Nest, target: Load, value: Expr, loc: Loc, loops: tuple[str, ...] = (), defines: str | None = None
    ) -> None:
        """A statement in the loops that are open, and in those of `loops` for itself alone."""
        for access in accesses(value):
            # A variable that nothing has set yet, or whose setting was refused.
            if access.buf not in self.bufs:
                self.bufs[access.buf] = Buf(access.buf, access.dtype, (), "local", loc=access.loc)
        shapes = {name: buf.shape for name, buf in self.bufs.items()}
        found, problems = cases(nest, target, value, shapes)
        if problems:
            raise SourceError(*problems)
        for case in found:
            time: Time = (*self.time, self.position())
            for name in loops:
                time = (*time, (name, 1), 0)
            self.statements.append(_Statement(case, time, loc, defines))

    def enter(self, iterator: str, step: int) -> Time:
        """Opens a loop; gives what `leave` needs."""
        outer = self.time
        self.time = (*outer, self.position(), (iterator, 1 if step > 0 else -1))
        self.counts.append(0)
        return outer

    def leave(self, outer: Time) -> None:
        self.counts.pop()
        self.time = outer

    def finish(self, name: str, params: tuple[Buf | ScalarParam, ...], root: Nest, loc: Loc) -> Func:
        """The program, without what is stored in local arrays and variables that nothing reads."""
        kept = self._live()
        length = max((len(s.time) for s in kept), default=1)
        length += 1 - length % 2
        used = _used_parameters(kept, root)
        comps = tuple(_comp(f"S{k}", s, length, used) for k, s in enumerate(kept))
        touched = {a.buf for s in kept for e in (s.case.target, s.case.value) for a in accesses(e)}
        bufs = tuple(b for b in self.bufs.values() if b.kind == "param" or b.name in touched)
        return Func(name, params, bufs, comps, loc)

    def _live(self) -> list[_Statement]:
        """The statements on which some stored parameter or some loop's bound depends."""
        read: set[str] = set()
        while True:
            live = [
                s for s in self.statements if s.defines or s.case.target.buf in read or self._is_param(s.case.target)
            ]
            more = {a.buf for s in live for e in (s.case.value, *s.case.target.indices) for a in accesses(e)}
            if more <= read:
                return live
            read |= more

    def _is_param(self, target: Load) -> bool:
        return self.bufs[target.buf].kind == "param"


def _used_parameters(statements: list[_Statement], root: Nest) -> list[str]:
    """The integer parameters on which some domain or subscript depends, beyond their type's range."""
    found: set[str] = set()
    for statement in statements:
        case = statement.case
        domain = case.nest.domain.gist_params(root.domain.params())
        for position in range(domain.dim(isl.dim_type.param)):
            if domain.involves_dims(isl.dim_type.param, position, 1):
                found.add(dim_name(domain, position))
        for access in (*accesses(case.target), *accesses(case.value)):
            found.update(p.name for index in access.indices for p in parameters(index))
    space = root.domain.get_space()
    names = [dim_name(space, k) for k in range(space.dim(isl.dim_type.param))]
    return [name for name in names if name in found]


def _comp(name: str, statement: _Statement, length: int, used: list[str]) -> Comp:
    nest = statement.case.nest
    domain = nest.domain
    for position in range(domain.dim(isl.dim_type.param) - 1, -1, -1):
        if dim_name(domain, position) not in used:
            domain = domain.project_out(isl.dim_type.param, position, 1)
    domain = domain.set_tuple_name(name)
    entries = []
    for entry in statement.time:
        match entry:
            case int():
                entries.append(str(entry))
            case (iterator, sign):
                entries.append(iterator if sign > 0 else f"-{iterator}")
    entries += ["0"] * (length - len(entries))
    prefix = f"[{', '.join(used)}] -> " if used else ""
    schedule = isl.Map(f"{prefix}{{ {name}[{', '.join(nest.iters)}] -> [{', '.join(entries)}] }}")
    case = statement.case
    return Comp(name, nest.iters, domain, schedule, case.target, case.value, statement.loc, statement.defines)
