"""From the language's declarations to a Func: types, domains, order, storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from typing import cast as as_type

import islpy as isl

from plant_core.ir.accesses import children
from plant_core.ir.c_semantics import dtype_of, is_float
from plant_core.ir.func import (
    Access,
    Action,
    Alloc,
    Buf,
    Comp,
    DType,
    Effect,
    Expr,
    Extent,
    Free,
    Func,
    Load,
    Memcpy,
    ScalarParam,
    Val,
)
from plant_core.ir.time_2d1 import Line, Position, schedule_map
from plant_core.lang.check import check_order
from plant_core.lang.domain import (
    Placed,
    affine,
    bounding_box,
    condition_set,
    default_order,
    sample_text,
    space_of,
)
from plant_core.lang.terms import Term
from plant_core.lang.types import convert, guess, truth, typed
from plant_core.support.location import Loc, PlantError

if TYPE_CHECKING:
    from plant_core.lang import Buffer, Computation, Function


def build(function: Function) -> Func:
    """The program in the order of definition. Raises PlantError DG225 to DG228 for what isn't a program."""
    func = _Builder(function).func()
    check_order(func)
    return func


def context_of(function: Function) -> isl.Set | None:
    return _Builder(function).context()


def buf_of(buffer: Buffer) -> Buf:
    """The IR's array of a declared buffer."""
    shape: list[Extent] = []
    for size in buffer.shape:
        extent = typed(size, {}) if isinstance(size, Term) else Val(size, "i32")
        if isinstance(extent, Val):
            shape.append(int(extent.value))
            continue
        affine_names = all(
            t.op in ("val", "param", "add", "sub", "mul", "floordiv") for t in _walk(as_type(Term, size))
        )
        if not affine_names:
            raise PlantError(
                f"an extent of '{buffer.name}' isn't known when the function is called",
                loc=buffer.loc,
                code="DG225",
                remedy="use numbers and integer parameters",
            )
        shape.append(extent)
    kind: Literal["param", "local"] = "local" if buffer.kind == "local" else "param"
    return Buf(
        buffer.name,
        buffer.dtype,
        tuple(shape),
        kind,
        buffer.kind == "input",
        buffer.loc,
        buffer.location,
    )


def _walk(term: Term) -> Iterator[Term]:
    yield term
    for part in term.parts:
        yield from _walk(part)


class _Builder:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._statements: list[tuple[Computation, Action | None]] = [
            s if isinstance(s, tuple) else (s, None) for s in function.statements
        ]
        self._comps = [c for c, action in self._statements if action is None]
        self._parameters = {c.name: c for c in self._comps if isinstance(c, Term)}
        self._scalars = {p[0]: p[1] for p in function.params if isinstance(p, tuple)}
        self._types: dict[str, DType] = {}

    def func(self) -> Func:
        function = self._function
        for comp, _ in self._statements:
            self._check_names(comp)
        self._infer()
        params = tuple(ScalarParam(*p) if isinstance(p, tuple) else buf_of(p) for p in function.params)
        bufs = [*(p for p in params if isinstance(p, Buf)), *map(buf_of, function.locals)]
        domains = {c.name: self._domain(c) for c, _ in self._statements}
        context = self.context()
        self._check_parameters(domains, context)
        order = default_order([self._placed(c) for c, _ in self._statements])
        length = 2 * max((len(c.iters) for c, _ in self._statements), default=0) + 1
        comps: list[Comp] = []
        effects: list[Effect] = []
        for comp, action in self._statements:
            domain = domains[comp.name]
            place = Position(order[comp.name], tuple(Line(0, ((n, 1),)) for n in comp.iters))
            if action is not None:
                self._check_action(comp, action)
                effect = Effect(comp.name, comp.iters, domain, _NO_MAP, action, comp.at)
                effects.append(replace(effect, schedule=schedule_map(effect, place, length)))
                continue
            target, buf = self._target(comp, domain, context)
            bufs += [buf] if buf is not None else []
            value = convert(typed(as_type(Term, comp.value), self._types, target.dtype), target.dtype)
            defines = comp.name if comp.name in self._parameters else None
            made = Comp(comp.name, comp.iters, domain, _NO_MAP, target, value, comp.at, defines)
            self._check_accesses(made)
            comps.append(replace(made, schedule=schedule_map(made, place, length)))
        return Func(function.name, params, tuple(bufs), tuple(comps), function.loc, tuple(effects), context)

    def context(self) -> isl.Set | None:
        """What `set_constraint` told, as a set of parameters."""
        found: isl.Set | None = None
        nowhere = space_of("S", ())
        for term in self._function.constraints:
            for part in _walk(term):
                self._check_constraint(part)
            one = condition_set(truth(term, {}), nowhere, term.loc).params()
            found = one if found is None else found.intersect(one)
        return found

    # Checks

    def _check_constraint(self, term: Term) -> None:
        """What is known holds for a whole call, so it is said of parameters alone."""
        known = {*self._scalars, *self._parameters}
        if term.op == "iter" or (term.op == "param" and as_type("tuple[str, DType]", term.data)[0] not in known):
            name = term.data if term.op == "iter" else as_type("tuple[str, DType]", term.data)[0]
            raise PlantError(
                f"'{name}' is no parameter of '{self._function.name}'",
                loc=term.loc,
                code="DG227",
                remedy=f"the parameters are: {', '.join(sorted(known)) or 'none'}",
            )

    def _check_action(self, comp: Computation, action: Action) -> None:
        """The arrays that an effect names are there."""
        known = {p.name for p in self._function.params if not isinstance(p, tuple)}
        known |= {b.name for b in self._function.locals}
        named = [action.to, action.source] if isinstance(action, Memcpy) else []
        named += [action.buf] if isinstance(action, Alloc | Free) else []
        for name in named:
            if name not in known:
                raise PlantError(
                    f"'{comp.name}' uses '{name}', which is no buffer of '{self._function.name}'",
                    loc=comp.at,
                    code="DG227",
                    remedy=f"its buffers are: {', '.join(sorted(known)) or 'none'}",
                )

    def _check_names(self, comp: Computation) -> None:
        if comp.value is None and any(c is comp for c in self._comps):
            raise PlantError(
                f"'{comp.name}' has no value", loc=comp.at, code="DG228", remedy=f"give it one: {comp.name}.define(...)"
            )
        for name in comp.iters:
            if name in self._scalars or name in self._parameters:
                raise PlantError(
                    f"'{name}' is an iterator of '{comp.name}' and a parameter too",
                    loc=comp.at,
                    code="DG224",
                    remedy="use another name for the iterator",
                )
        if comp.stored and comp.stored[0].function is not self._function:
            raise _foreign(comp.stored[0], self._function, comp.at)
        stored = comp.stored[1] if comp.stored else ()
        for root in (*comp.conditions, *([comp.value] if comp.value is not None else []), *stored):
            for term in _walk(root):
                self._check_term(comp, term)

    def _check_term(self, comp: Computation, term: Term) -> None:
        function = self._function
        match term.op:
            case "iter" if term.data not in comp.iters:
                raise PlantError(
                    f"'{term.data}' is no iterator of '{comp.name}'",
                    loc=term.loc,
                    code="DG227",
                    remedy=f"its iterators are: {', '.join(comp.iters) or 'none'}",
                )
            case "param":
                name = as_type("tuple[str, DType]", term.data)[0]
                if name not in self._scalars and name not in self._parameters:
                    raise PlantError(
                        f"'{name}' is no parameter of '{function.name}'",
                        loc=term.loc,
                        code="DG227",
                        remedy=f"declare it: param('{name}')",
                    )
            case "load" | "access":
                owner = as_type("Buffer | Computation", term.data)
                if owner.function is not function:
                    raise _foreign(owner, function, term.loc)

    def _check_accesses(self, comp: Comp) -> None:
        """Subscripts of computations are affine."""
        pending: list[Expr] = [comp.value, comp.target]
        while pending:
            expr = pending.pop()
            if isinstance(expr, Access):
                for index in expr.indices:
                    affine(index, comp, expr.loc, f"the subscript of '{expr.comp}'")
            pending += children(expr)

    def _check_parameters(self, domains: dict[str, isl.Set], context: isl.Set | None) -> None:
        """A statement runs only where the parameters that it uses are defined."""
        for comp, _ in self._statements:
            for name in self._used(comp):
                parameter = self._parameters[name]
                rank = len(parameter.iters)
                inner = [n for n, p in self._parameters.items() if len(p.iters) >= max(rank, 1)]
                here = domains[comp.name]
                here = here.project_out(isl.dim_type.set, rank, len(comp.iters) - rank).set_tuple_name(name)
                here = here.intersect_params(context) if context is not None else here
                for other in inner:
                    place = here.find_dim_by_name(isl.dim_type.param, other)
                    if place >= 0:
                        here = here.project_out(isl.dim_type.param, place, 1)
                if not here.is_subset(domains[name]):
                    outside = sample_text(here.subtract(domains[name]))
                    raise PlantError(
                        f"'{comp.name}' uses '{name}' where it isn't defined: there is no {outside}",
                        loc=comp.at,
                        code="DG228",
                        remedy="give both the same bounds in the loops that they share",
                    )

    # Parts

    def _infer(self) -> None:
        """Types of all computations: the array's, else the declared, else that of the value."""
        for comp in self._comps:
            dtype = comp.stored[0].dtype if comp.stored else comp.dtype
            if dtype is not None:
                self._types[comp.name] = dtype
        pending = [c for c in self._comps if c.name not in self._types]
        while pending:
            # A second choice, for computations of numbers alone: those are what C takes them for.
            known = [(c, guess(as_type(Term, c.value), self._types)) for c in pending]
            sure = [(c, g) for c, g in known if g not in ("int", "float", "unknown") and not self._waits(c)]
            chosen = sure or [(c, g) for c, g in known if g not in ("int", "float", "unknown")]
            chosen = chosen or [(c, "f64" if g == "float" else "i32") for c, g in known if g != "unknown"]
            if not chosen:
                raise PlantError(
                    f"the type of '{pending[0].name}' isn't known",
                    loc=pending[0].at,
                    code="DG226",
                    remedy="give it with dtype=",
                )
            for comp, found in chosen:
                self._types[comp.name] = as_type(DType, found)
            pending = [c for c in pending if c.name not in self._types]

    def _waits(self, comp: Computation) -> bool:
        """Whether the value reads another computation whose type isn't known yet."""
        reads = (as_type("Computation", t.data) for t in _walk(as_type(Term, comp.value)) if t.op == "access")
        return any(other is not comp and other.name not in self._types for other in reads)

    def _domain(self, comp: Computation) -> isl.Set:
        space = space_of(comp.name, comp.iters)
        domain = space.domain
        for term in comp.conditions:
            domain = domain.intersect(condition_set(truth(term, self._types), space, term.loc))
        return domain.coalesce()

    def _used(self, comp: Computation) -> list[str]:
        """The parameters of other computations that `comp` mentions."""
        stored = comp.stored[1] if comp.stored else ()
        roots = (*comp.conditions, *([comp.value] if comp.value is not None else []), *stored)
        found = {
            as_type("tuple[str, DType]", t.data)[0]: None for root in roots for t in _walk(root) if t.op == "param"
        }
        return [n for n in found if n in self._parameters and n != comp.name]

    def _placed(self, comp: Computation) -> Placed:
        needs = tuple((name, len(self._parameters[name].iters)) for name in self._used(comp))
        return Placed(comp.name, comp.iters, (*needs, comp.follows) if comp.follows else needs, comp.at)

    def _target(self, comp: Computation, domain: isl.Set, context: isl.Set | None) -> tuple[Load, Buf | None]:
        """Where `comp` is stored, and the array if that is one of its own."""
        if comp.name in self._parameters:
            dtype = self._types[comp.name]
            return Load(comp.name, (), dtype, comp.at), Buf(comp.name, dtype, (), "local", loc=comp.at)
        if comp.stored is not None:
            buffer, indices = comp.stored
            return Load(buffer.name, tuple(_index(t) for t in indices), buffer.dtype, comp.at), None
        dtypes = {**self._scalars, **{n: self._types[n] for n in self._parameters}}
        bounded = domain if context is None else domain.intersect_params(context)
        shape, exprs = bounding_box(bounded, comp.iters, dtypes, comp.at)
        dtype = self._types[comp.name]
        return Load(comp.name, exprs, dtype, comp.at), Buf(comp.name, dtype, shape, "local", loc=comp.at)


def _foreign(owner: Buffer | Computation, function: Function, loc: Loc) -> PlantError:
    return PlantError(
        f"'{owner.name}' belongs to another function, '{owner.function.name}'",
        loc=loc,
        code="DG227",
        remedy=f"declare it in '{function.name}'",
    )


def _index(term: Term) -> Expr:
    expr = typed(term, {})
    if is_float(dtype_of(expr)):
        raise PlantError("a subscript must be an integer", loc=term.loc, code="DG226", remedy="cast() it to i32")
    return expr


_NO_MAP = isl.Map("{ [] -> [] }")
