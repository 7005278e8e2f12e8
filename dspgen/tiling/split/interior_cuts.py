"""Where a loop is cut, so that most of its iterations have the same iterations of all other loops.

Spans of known loops are found from exact sets. Where ends depend on parameters, they are found at large values of
these, and told as what is affine in them; sizes for which a loop has no such spans are apart. Parameters of few values
(how much of a loop lies beside a block, up to what matters) are 0 there, where there are the most spans.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from plant_core.analysis.rectangular_hull import in_text
from plant_core.ir.accesses import Linear
from plant_core.ir.quasi_affine import parameters_of

# An interior has so many iterations, and one in so many of those of its loop; other pieces are looked at for interiors
# of their own where they have one in so many.
_FEWEST = 2
_SHARE = 2
_REST = 4
# Values of parameters at which ends are found: the first's, by how much each is larger than the one before it, and by
# how much it is changed to tell what depends on it.
_LARGE = 240
_APART = 96
_MORE = 32
_MUCH = 8  # times as large is one of several parameters
_SEVERAL = (2, 3)
_FEW_VALUES = 2  # of a parameter that are tried one by one

_Ends = tuple[int, int]
_Part = tuple[_Ends, bool]  # a span, and whether it is an interior


@dataclass(frozen=True, slots=True)
class Span:
    """Iterations from `low` to `high`, both in parameters; `interior`: all have the same iterations of other loops."""

    low: Linear
    high: Linear
    interior: bool

    def of(self, domain: isl.Set, depth: int) -> isl.Set:
        """Those of a domain whose iterator at this depth is in the span."""
        if not self.low[1] and not self.high[1]:
            domain = domain.lower_bound_val(isl.dim_type.set, depth, isl.Val(self.low[0]))
            return domain.upper_bound_val(isl.dim_type.set, depth, isl.Val(self.high[0]))
        iterators = [f"i{k}" for k in range(domain.dim(isl.dim_type.set))]
        within = f"{in_text(self.low)} <= i{depth} <= {in_text(self.high)}"
        box = isl.Set(f"[{', '.join(parameters_of(domain))}] -> {{ [{', '.join(iterators)}] : {within} }}")
        if (name := domain.get_tuple_name()) is not None:
            box = box.set_tuple_name(name)
        return domain.intersect(box)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The spans of a loop in their order; `where`: the parameters for which there are those, None: any."""

    spans: tuple[Span, ...]
    where: isl.Set | None = None


def cuts_of(domains: Sequence[isl.Set], depth: int, values: Mapping[str, Sequence[int]]) -> Cuts | None:
    """Where to cut the loop at this depth, which statements with these domains share; None where it stays whole.
    `values`: of parameters that may have those only, from 0 on.

    Requires: the domains have the same parameters.
    """
    ways = _large_sizes([n for n in parameters_of(domains[0]) if n not in values])
    return next((found for large in ways if (found := _cuts_at(domains, depth, values, large)) is not None), None)


def _large_sizes(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Values of parameters at which to look for interiors: alike, or one much larger than the others, as where what
    surrounds an iteration has a size of its own."""
    alike = {name: _LARGE + _APART * k for k, name in enumerate(names)}
    yield alike
    if len(names) in _SEVERAL:
        yield from (alike | {name: _MUCH * size} for name, size in alike.items())


def _cuts_at(
    domains: Sequence[isl.Set], depth: int, values: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> Cuts | None:
    """Where to cut the loop as its ends at these `sizes` tell."""
    names = parameters_of(domains[0])
    large = {name: sizes.get(name, 0) for name in names}
    begin = _begin(domains, depth, large | {name: max(values[name]) for name in names if name in values})
    first = _from(begin, _spans_at(domains, depth, large))
    if len(first) < 2:
        return None
    changed, steps = list[list[_Ends]](), {name: _step(values.get(name, ())) for name in names}
    for name in names:
        each = _from(begin, _spans_at(domains, depth, {**large, name: large[name] + steps[name]}))
        if name in values:
            each = _filled(each, first) if each else first  # pieces that only run for 0 don't change
        if [interior for _, interior in each] != [interior for _, interior in first]:
            return None
        changed.append([ends for ends, _ in each])
    spans = []
    for number, (ends, interior) in enumerate(first):
        low, high = (_affine(ends[k], large, steps, [each[number][k] for each in changed]) for k in (0, 1))
        if low is None or high is None:
            return None
        spans.append(Span(low, high, interior))
    found = tuple(spans)
    if not names:
        return Cuts(found)
    known = _told(names, values)
    where = _where(found, names).gist(known)
    told = where.intersect(known)
    if any(not domain.intersect_params(told).is_subset(_union(found, domain, depth)) for domain in domains):
        return None
    return Cuts(found, where)


def _step(values: Sequence[int]) -> int:
    """By how much a parameter is changed to tell what depends on it."""
    return ((max(values) or 1) if len(values) == _FEW_VALUES else 1) if values else _MORE


def _spans_at(domains: Sequence[isl.Set], depth: int, values: Mapping[str, int]) -> list[_Part]:
    """The spans where parameters have these values."""
    fixed = _at(domains, values)
    return _spans(fixed, depth) if fixed else []


def _at(domains: Sequence[isl.Set], values: Mapping[str, int]) -> list[isl.Set]:
    """The domains where parameters have these values, but for those that are empty."""
    fixed = []
    for domain in domains:
        for k, value in enumerate(values.values()):
            domain = domain.fix_val(isl.dim_type.param, k, isl.Val(value))
        domain = domain.project_out(isl.dim_type.param, 0, len(values))
        if not domain.is_empty():
            fixed.append(domain)
    return fixed


def _filled(spans: Sequence[_Part], as_in: Sequence[_Part]) -> list[_Part]:
    """The spans with those of others that they lack at either end, which are out of the loop's iterations."""
    places = range(len(as_in) - len(spans) + 1)
    flags = [[interior for _, interior in found] for found in (spans, as_in)]
    fitting = [k for k in places if flags[1][k : k + len(spans)] == flags[0]]
    best = max(fitting, key=lambda k: sum(a == b for a, b in zip(spans, as_in[k:], strict=False)), default=None)
    made = list(spans) if best is None else [*as_in[:best], *spans, *as_in[best + len(spans) :]]
    return made if all(a[0][1] + 1 == b[0][0] for a, b in itertools.pairwise(made)) else list(spans)


def _affine(value: int, large: Mapping[str, int], steps: Mapping[str, int], changed: Sequence[int]) -> Linear | None:
    """What has this value at large parameters, and the others where one of them is a step larger."""
    factors = {}
    for name, other in zip(large, changed, strict=True):
        if (other - value) % steps[name]:
            return None
        factors[name] = (other - value) // steps[name]
    constant = value - sum(large[name] * factor for name, factor in factors.items())
    return constant, {n: f for n, f in factors.items() if f}


def _where(spans: Sequence[Span], names: Sequence[str]) -> isl.Set:
    """The parameters for which all spans follow each other; any of them may be empty."""
    each = " and ".join(f"{in_text(s.low)} <= {in_text(s.high)} + 1" for s in spans)
    return isl.Set(f"[{', '.join(names)}] -> {{ : {each} }}")


def _told(names: Sequence[str], values: Mapping[str, Sequence[int]]) -> isl.Set:
    """What is known of parameters."""
    each = [f"0 <= {name} <= {max(values[name])}" for name in names if name in values]
    return isl.Set(f"[{', '.join(names)}] -> {{ : {' and '.join(each) or 'true'} }}")


def with_values(domain: isl.Set, values: Mapping[str, Sequence[int]]) -> isl.Set:
    """The domain in few words, where parameters have only such values."""
    for k, name in enumerate(parameters_of(domain)):
        few = values.get(name, ())
        if 0 < len(few) <= _FEW_VALUES:
            some = [d for v in few if not (d := domain.fix_val(isl.dim_type.param, k, isl.Val(v))).is_empty()]
            domain = some[0] if len(some) == 1 else domain
    return domain.gist_params(_told(parameters_of(domain), values))


def _begin(domains: Sequence[isl.Set], depth: int, values: Mapping[str, int]) -> int | None:
    """The first iteration of a loop where parameters have these values."""
    return min((int(d.dim_min_val(depth).to_python()) for d in _at(domains, values)), default=None)


def _from(begin: int | None, spans: Sequence[_Part]) -> list[_Part]:
    """The spans with an interior cut in two where the loop may begin."""
    made = list[_Part]()
    for (low, high), interior in spans:
        if interior and begin is not None and low < begin <= high:
            made += [((low, begin - 1), True), ((begin, high), True)]
        else:
            made.append(((low, high), interior))
    return made


def _union(spans: Sequence[Span], domain: isl.Set, depth: int) -> isl.Set:
    universe = isl.Set.universe(domain.get_space())
    found = isl.Set.empty(domain.get_space())
    for span in spans:
        found = found.union(span.of(universe, depth))
    return found


# --- known loops --------------------------------------------------------------------------------------------------


def _spans(domains: Sequence[isl.Set], depth: int) -> list[_Part]:
    """The pieces of a loop in their order, and which of them are interiors."""
    low = min(int(d.dim_min_val(depth).to_python()) for d in domains)
    high = max(int(d.dim_max_val(depth).to_python()) for d in domains)
    return _parts_of(domains, depth, (low, high), _SHARE)


def _parts_of(domains: Sequence[isl.Set], depth: int, span: _Ends, share: int) -> list[_Part]:
    low, high = span
    count = high - low + 1
    best: _Ends | None = None
    for at in dict.fromkeys((low + count // 2, low + count // 4, low + 3 * count // 4)):
        found = _steady(domains, depth, at, span)
        if best is None or found[1] - found[0] > best[1] - best[0]:
            best = found
        if share * (best[1] - best[0] + 1) >= count:
            break
    if best is None or best[1] - best[0] + 1 < _FEWEST or share * (best[1] - best[0] + 1) < count:
        return [(span, False)]
    made = [(best, True)]
    if low < best[0]:
        made = [*_parts_of(domains, depth, (low, best[0] - 1), _REST), *made]
    if best[1] < high:
        made += _parts_of(domains, depth, (best[1] + 1, high), _REST)
    return made


def _steady(domains: Sequence[isl.Set], depth: int, at: int, span: _Ends) -> _Ends:
    """The iterations around `at` that have the same iterations of all other loops as this one."""
    low, high = span
    for domain in domains:
        here = domain.fix_val(isl.dim_type.set, depth, isl.Val(at)).eliminate(isl.dim_type.set, depth, 1).coalesce()
        here = _within_span(here, depth, (low, high))
        domain = _within_span(domain, depth, (low, high))
        other = domain.subtract(here).union(here.subtract(domain))
        # isl takes 0 for the least value of an empty part of a set, unless it knows that the part is empty.
        before = other.upper_bound_val(isl.dim_type.set, depth, isl.Val(at - 1)).coalesce()
        after = other.lower_bound_val(isl.dim_type.set, depth, isl.Val(at + 1)).coalesce()
        if not before.is_empty():
            low = int(before.dim_max_val(depth).to_python()) + 1
        if not after.is_empty():
            high = int(after.dim_min_val(depth).to_python()) - 1
    return low, high


def _within_span(domain: isl.Set, depth: int, span: _Ends) -> isl.Set:
    domain = domain.lower_bound_val(isl.dim_type.set, depth, isl.Val(span[0]))
    return domain.upper_bound_val(isl.dim_type.set, depth, isl.Val(span[1]))
