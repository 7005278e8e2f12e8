"""What became of each loop: which of its iterations run at once, or the reason why none do.

One verdict for each loop that holds statements itself, at its first statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import islpy as isl

from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Choice, Trial
from dspgen.tiling.loops.lane_loops import Lane, LegalLanes
from dspgen.tiling.loops.loop_nests import CompInfo, LoopId, Nest
from plant_core.analysis.dependence import Dependence, reduction_of
from plant_core.analysis.linear_recurrences import recurrence_of
from plant_core.ir.accesses import access_map, children, read_accesses, rebuild
from plant_core.ir.c_semantics import dtype_of, is_float
from plant_core.ir.func import Binary, Call, Cast, Comp, Expr, Load, Select, Unary, Val
from plant_core.support.location import Loc
from plant_core.tile_plan.plan import Shape

Kind = Literal["vectorized", "not-vectorized"]
_ONE_ITERATION = "the loop has one iteration"
_WITH_OTHERS = "in vectors of other statements"
_GONE = "no instruction is left of it"
_MOSTLY = 0.5  # of a statement's instructions: if so many run on vector units, it is in vectors, as others are
# How many different verdicts on parts of one loop are told.
_TOLD = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """About the loop whose first statement stands at `loc`."""

    loc: Loc | None
    kind: Kind
    message: str


def explain_lanes(
    nest: Nest,
    choice: Choice,
    known: Sequence[Dependence],
    target: Target,
    *,
    reassoc: bool,
    meanings: Mapping[str, str] = MappingProxyType({}),
    singles: Mapping[str, str] = MappingProxyType({}),
    emitted: Mapping[Loc, float] = MappingProxyType({}),
) -> tuple[Verdict, ...]:
    """Verdicts on each loop that holds statements itself.

    `known`: the dependences among the nest's comps; `meanings`: in words, what variables stand for that the program's
    text doesn't have; `singles`: the statements that lanes lack an operation for, and which; `emitted`: the statements'
    places that the code has instructions of, and the share of these that run on vector units.

    There is one verdict on the statements that run across lanes, be it across the loop's own iterations or an outer
    one's, one on those that don't, and one on `singles` that were taken out of it.
    """
    loops: dict[LoopId, list[CompInfo]] = {}
    for comp in nest.comps:
        if comp.loops:
            loops.setdefault(comp.loops[-1].id, []).append(comp)
    explain = _Explainer(nest, choice, known, target, reassoc, meanings, singles, emitted)
    return tuple(verdict for comps in loops.values() for verdict in explain.loop(comps))


def one_for_each(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on the parts of one loop of the text as one, which is vectorized in part if one of them is; single
    iterations split off it don't count."""
    parts: dict[Loc | None, list[Verdict]] = {}
    for verdict in verdicts:
        parts.setdefault(verdict.loc, []).append(verdict)
    found = []
    for loc, mine in parts.items():
        mine = [v for v in mine if v.message != _ONE_ITERATION] or mine[:1]
        done = [v.message for v in mine if v.kind == "vectorized"]
        missed = [v.message for v in mine if v.kind != "vectorized"]
        if done and missed:
            found.append(Verdict(loc, "vectorized", f"in part: {_few_of(done)}; the rest: {_few_of(missed)}"))
        else:
            found.append(Verdict(loc, "vectorized" if done else "not-vectorized", _few_of(done or missed)))
    return tuple(found)


def _few_of(messages: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    more = [f"and {len(distinct) - _TOLD} more parts"] if len(distinct) > _TOLD else []
    return "; ".join(distinct[:_TOLD] + more)


@dataclass(frozen=True, slots=True)
class _Explainer:
    nest: Nest
    choice: Choice
    known: Sequence[Dependence]
    target: Target
    reassoc: bool
    meanings: Mapping[str, str]
    singles: Mapping[str, str]
    emitted: Mapping[Loc, float]

    def loop(self, comps: list[CompInfo]) -> Iterator[Verdict]:
        """On the loop's statements, and on those of them that were taken out of it."""
        others = [c for c in comps if c.comp.name not in self.singles]
        yield from self._verdicts(others)
        lacked = [self.singles[c.comp.name] for c in comps if c.comp.name in self.singles]
        if lacked:
            told = " and ".join(dict.fromkeys(lacked))
            text = f"{self.target.name} has no vector {told}, which runs one by one"
            yield Verdict(comps[0].comp.loc, "not-vectorized", text)

    def _verdicts(self, comps: list[CompInfo]) -> Iterator[Verdict]:
        found: dict[str, dict[str, None]] = {}
        idle: list[tuple[CompInfo, str]] = []
        for comp in comps:
            shape, share = self._lanes(comp.comp.name), self.emitted.get(comp.comp.loc)
            if shape is None and share is not None and share >= _MOSTLY:
                found.setdefault(_WITH_OTHERS, {})
            elif shape is None:
                gone = share is None and self.emitted and any(x.extent > 1 for x in comp.loops)
                idle.append((comp, _GONE if gone else self._reason(comp)))
            elif share == 0:
                idle.append((comp, "no instruction is left of it that runs on a vector unit"))
            else:
                over, parts = self._how(comp, shape)
                found.setdefault(over, {}).update(dict.fromkeys(parts))
        if found:
            told = "; ".join(", ".join((o, *p)) for o, p in found.items()) + self._gain()
            yield Verdict(comps[0].comp.loc, "vectorized", told)
        if idle:
            comp, reason = idle[0]
            other = f"line {comp.comp.loc.line} " if comp.comp.loc.line != comps[0].comp.loc.line else ""
            yield Verdict(comps[0].comp.loc, "not-vectorized", other + reason)

    def _lanes(self, name: str) -> Shape | None:
        """The widest shape of a comp that has lanes."""
        plan = dict(self.choice.candidate.plans).get(name)
        shapes = [s for s in plan.shapes if any(x.lane for _, x in s)] if plan is not None else []
        return shapes[0] if shapes else None

    def _how(self, comp: CompInfo, shape: Shape) -> tuple[str, list[str]]:
        """The loops and lanes, and what is special about them."""
        over = [name for name, s in shape if s.lane] + [name for name, s in shape if s.inner]
        spans = dict(shape)
        width = min(spans[over[0]].span * (spans[over[1]].span if len(over) > 1 else 1), self.target.lanes)
        parts = []
        if spans[over[0]].reduce:
            parts.append("partial sums" if _adds(comp.comp) else "partial results")
        if spans[over[0]].scan:
            parts.append("a recurrence by prefixes")
        if any(s.cut for plan in self._plans(comp.comp.name) for _, s in plan):
            parts.append("rows cut by masks")
        parts += _places(comp, over, self.target.lanes)
        return f"across {' and '.join(over)}: {width} lanes", parts

    def _plans(self, name: str) -> tuple[Shape, ...]:
        plan = dict(self.choice.candidate.plans).get(name)
        return plan.shapes if plan is not None else ()

    def _gain(self) -> str:
        """How much faster than without lanes, where that was scheduled too."""
        plain = min((t.cycles for t in self.choice.trials if not t.laned and t.cycles is not None), default=None)
        best = self._chosen()
        return "" if plain is None or not best else f"; {plain / best:.1f} times as fast as scalar code"

    def _reason(self, comp: CompInfo) -> str:
        if all(x.extent < 2 for x in comp.loops):
            return _ONE_ITERATION
        inner = [x.iterator for x in reversed(comp.loops) if x.extent > 1]
        blocked = [self._blocked(comp, i) for i in inner]
        if (number := double_constant(comp.comp)) is not None and self._only_in_double(comp, inner, blocked):
            return f"computed in double, as {number} is one, and not in lanes; {number}f is a float"
        if all(blocked):
            return blocked[0] or ""
        return self._tried(comp) or next((b for b in blocked if b), "no loop was found to be worth it")

    def _only_in_double(self, comp: CompInfo, iterators: Sequence[str], blocked: Sequence[str]) -> bool:
        """Whether lanes that a statement doesn't have, or were refused, would do it in float."""
        if all(blocked):
            single = replace(comp.comp, value=in_float(comp.comp.value))
            return any(recurrence_of(single, i) is not None for i in iterators)
        mine = [t for t in self.choice.trials if comp.comp.name in t.laned]
        return bool(mine) and all(t.cycles is None and "f64" in t.refused for t in mine)

    def _tried(self, comp: CompInfo) -> str:
        """What became of the candidates with lanes for this comp."""
        mine = [t for t in self.choice.trials if comp.comp.name in t.laned]
        worked = min((t.cycles for t in mine if t.cycles is not None), default=None)
        chosen, lanes = self._chosen(), "with this in lanes, too" if self.choice.candidate.laned else "with lanes"
        if worked is not None and chosen is not None:
            return f"not worth it: {chosen:.0f} cycles like this, {worked:.0f} {lanes}"
        refused = [t for t in mine if t.refused]
        expected = [t for t in refused if t.refused.startswith("the model expects")]
        told = next((t.refused for t in refused if t not in expected), None)
        if told is not None:
            return told
        if expected and chosen is not None:
            return f"not worth it: {chosen:.0f} cycles like this, about {expected[0].estimate:.0f} {lanes}"
        return ""

    def _chosen(self) -> float | None:
        trial: Trial | None = next((t for t in self.choice.trials if t.title == self.choice.candidate.title), None)
        return None if trial is None else trial.cycles

    # --- dependences ----------------------------------------------------------------------------------------------

    def _blocked(self, comp: CompInfo, iterator: str) -> str:
        """The reason why iterations of this loop can't run at once in the order of the text, with an instance; empty
        where there is none."""
        name = comp.comp.name
        reduction = reduction_of(comp.comp)
        stays = any(a.stays(iterator) for a in comp.accesses if a.write)
        if stays and reduction is not None and is_float(comp.comp.target.dtype) and not self.reassoc:
            return f"not across {iterator}: floating-point results keep their order (--fp strict)"
        if stays and reduction is None:
            return f"not across {iterator}: all iterations write one element of {comp.comp.target.buf}"
        legal = LegalLanes(self.nest, self.known, self.target.lanes)
        own = [d for d in self.known if d.source == d.sink == name and not d.reduction]
        order = tuple(x.iterator for x in comp.loops)
        scan = recurrence_of(comp.comp, iterator)
        if scan is not None and is_float(comp.comp.target.dtype) and not self.reassoc:
            return f"not across {iterator}: a recurrence, and floating-point results keep their order (--fp strict)"
        if legal.breaks_own(comp, order, Lane(iterator, scan=scan is not None), 2):
            pair = self._first(own, comp, comp, iterator)
            return f"not across {iterator}: {pair}" if pair else ""
        updates = [d for d in self.known if d.source == d.sink == name and d.reduction]
        if not stays and (pair := self._first(updates, comp, comp, iterator)):
            return f"not across {iterator}: {pair}"
        for other in self.nest.comps:
            if other is comp or not _share(comp, other, iterator):
                continue
            between = [d for d in self.known if {d.source, d.sink} == {name, other.comp.name} and not d.reduction]
            there = [self._first([d], *self._ends(d), iterator) for d in between]
            if self._circle(comp, other) and any(there):
                return f"not across {iterator}: {next(t for t in there if t)}"
        return ""

    def _ends(self, dependence: Dependence) -> tuple[CompInfo, CompInfo]:
        by_name = {c.comp.name: c for c in self.nest.comps}
        return by_name[dependence.source], by_name[dependence.sink]

    def _circle(self, a: CompInfo, b: CompInfo) -> bool:
        """Whether two comps depend on each other, be it through others."""
        return _reaches(self.known, a.comp.name, b.comp.name) and _reaches(self.known, b.comp.name, a.comp.name)

    def _first(self, found: Sequence[Dependence], source: CompInfo, sink: CompInfo, iterator: str) -> str:
        """A pair of iterations of one loop near each other, what they touch, and how."""
        kinds = {"flow": 0, "output": 1, "anti": 2}
        for dependence in sorted(found, key=lambda d: kinds[d.kind]):
            place = _place(source, sink, iterator)
            if place is None:
                continue
            pairs = dependence.relation
            for level in range(place):
                pairs = pairs.equate(isl.dim_type.in_, _dim(source, level), isl.dim_type.out, _dim(sink, level))
            here, there = _dim(source, place), _dim(sink, place)
            same = pairs.equate(isl.dim_type.in_, here, isl.dim_type.out, there)
            if not (pairs := pairs.subtract(same)).is_empty():
                meaning = self.meanings.get(dependence.buf, "")
                return _told(dependence, pairs, source.comp, sink.comp, here, there, meaning)
        return ""


def double_constant(comp: Comp) -> str | None:
    """The first constant of type double in a statement all of whose data are narrower, as it is written."""
    if comp.target.dtype != "f32" or any(a.dtype == "f64" for a in read_accesses(comp)):
        return None
    pending = [comp.value]
    while pending:
        expr = pending.pop(0)
        if isinstance(expr, Val) and expr.dtype == "f64":
            return repr(float(expr.value))
        pending += children(expr)
    return None


def in_float(expr: Expr) -> Expr:
    """The same computed in float where it is computed in double."""
    if isinstance(expr, Val):
        return Val(expr.value, "f32") if expr.dtype == "f64" else expr
    if isinstance(expr, Load):
        return expr
    parts = tuple(in_float(part) for part in children(expr))
    if isinstance(expr, Cast) and "f64" in (expr.dtype, dtype_of(expr.operand)) and dtype_of(parts[0]) == "f32":
        return parts[0]
    made = rebuild(expr, parts) if parts else expr
    if isinstance(made, Cast | Unary | Binary | Select | Call) and made.dtype == "f64":
        return replace(made, dtype="f32")
    return made


def _adds(comp: Comp) -> bool:
    found = reduction_of(comp)
    return found is not None and found.op == "add"


def _places(comp: CompInfo, over: list[str], lanes: int) -> Iterator[str]:
    """Accesses that are not side by side on the lanes."""
    told: dict[str, None] = {}
    for access in comp.accesses:
        does, how = ("writes", "scatter") if access.write else ("reads", "gather")
        stride = access.coefficient(over[-1])
        if access.varies & set(over):
            told[f"{does} {access.buf} by {how}"] = None
        elif abs(stride) > 1:
            told[f"{does} {access.buf} in steps of {abs(stride)}"] = None
    yield from told


def _share(a: CompInfo, b: CompInfo, iterator: str) -> bool:
    loop = a.loop(iterator)
    return any(x.id == loop.id for x in b.loops)


def _reaches(known: Sequence[Dependence], start: str, goal: str) -> bool:
    seen, pending = {start}, [start]
    while pending:
        name = pending.pop()
        for d in known:
            if d.source == name and d.sink not in seen:
                seen.add(d.sink)
                pending.append(d.sink)
    return goal in seen


def _place(source: CompInfo, sink: CompInfo, iterator: str) -> int | None:
    """How deep the loop lies that both share and one of them calls so."""
    for level, (a, b) in enumerate(zip(source.loops, sink.loops, strict=False)):
        if a.id != b.id:
            return None
        if iterator in (a.iterator, b.iterator):
            return level
    return None


def _dim(comp: CompInfo, level: int) -> int:
    return comp.comp.iters.index(comp.loops[level].iterator)


def _told(dependence: Dependence, pairs: isl.Map, source: Comp, sink: Comp, here: int, there: int, meaning: str) -> str:
    count = len(source.iters)
    wrapped = pairs.wrap()
    dims = range(wrapped.dim(isl.dim_type.set))
    least = not wrapped.dim(isl.dim_type.param) and all(wrapped.dim_min_val(k).is_int() for k in dims)
    point = (wrapped.lexmin() if least else wrapped).sample_point()
    values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count + len(sink.iters))]
    first, second = values[here], values[count + there]
    if meaning:
        knows = {"flow": ("needs to know", "decides"), "anti": ("decides", "needs to know"), "output": ("decides",) * 2}
        later, sooner = knows[dependence.kind]
        return f"iteration {second} {later} {meaning}, which iteration {first} {sooner}"
    element, sure = _element(dependence, point, source, sink)
    does = {"flow": ("reads", "writes"), "anti": ("writes", "reads"), "output": ("writes", "writes too")}
    if not sure:
        does = {
            "flow": ("reads", "may write"),
            "anti": ("may write", "reads"),
            "output": ("may write", "may write too"),
        }
    later, sooner = does[dependence.kind]
    return f"iteration {second} {later} {element}, which iteration {first} {sooner}"


def _element(dependence: Dependence, point: isl.Point, source: Comp, sink: Comp) -> tuple[str, bool]:
    """The element that both instances touch, as far as it is known, and whether they do for sure."""
    both = isl.Set.from_point(point).unwrap()
    touched, sure = [], True
    for comp, ends, writes in (
        (source, both.domain(), dependence.kind != "anti"),
        (sink, both.range(), dependence.kind != "flow"),
    ):
        accesses = [comp.target] if writes else list(read_accesses(comp))
        maps = [access_map(comp, a) for a in accesses if a.buf == dependence.buf]
        if not maps:
            return f"the loop bound '{dependence.buf}'", True
        sure = sure and all(exact for _, exact in maps)
        sets = [ends.apply(relation) for relation, _ in maps]
        joined = sets[0]
        for more in sets[1:]:
            joined = joined.union(more)
        touched.append(joined)
    elements = touched[0].intersect(touched[1])
    if elements.is_empty() or not elements.is_singleton():
        return f"an element of {dependence.buf}", sure
    at = elements.sample_point()
    subscripts = (at.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(elements.dim(isl.dim_type.set)))
    return dependence.buf + "".join(f"[{k}]" for k in subscripts), sure
