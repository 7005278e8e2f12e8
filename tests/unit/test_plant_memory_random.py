"""Memory verbs on random programs: results stay, caches are as large as the largest footprint, and legality is what
running the instances one by one says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import islpy as isl
import numpy as np
import pytest

from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.accesses import access_map
from plant_core.ir.func import Access, Binary, Buf, Expr, Func, Iter, Val
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.scan import scan
from plant_core.schedule import memory
from plant_core.schedule.legality import check
from plant_core.schedule.memory.access_sites import as_load, sites
from plant_core.support.location import IllegalSchedule, PlantError
from tests.support.plant_builder import Builder
from tests.support.plant_random import random_func, random_inputs

Point = tuple[int, ...]


def pairs(relation: isl.Map) -> list[tuple[Point, Point]]:
    count = relation.dim(isl.dim_type.in_)
    found: list[Point] = []
    flat = relation.wrap().flatten()
    total = flat.dim(isl.dim_type.set)
    flat.foreach_point(
        lambda p: found.append(tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(total)))
    )
    return [(p[:count], p[count:]) for p in found]


def function(relation: isl.Map) -> dict[Point, Point]:
    return dict(pairs(relation))


# --- footprints ---------------------------------------------------------------------------------------------------


@dataclass
class Case:
    func: Func
    tight: bool
    """The accesses are boxes that don't share elements only in part: no element of the cache is wasted."""


def case(random: Random) -> Case:
    """`y[i, j] += a[..] + a[..]`, with random subscripts, shapes and steps."""
    bounds = [random.choice(["0 <= i < 7", "2 <= i < 9"]), random.choice(["0 <= j < 6", "0 <= j <= i", "1 <= j < 8"])]
    bounds.append(random.choice(["0 <= k < 5", "0 <= k < 9"]))
    step = random.choice([1, 1, 1, 2, 3])
    kind = random.random()
    if kind < 0.5:
        column, row = random.choice([("k", "j"), ("i", "k"), ("j", "k"), ("i", "j")])
        offsets = [(0, 0)]
        if random.random() < 0.6:
            offsets.append(random.choice([(40, 0), (0, 45), (40, 45)]))
        texts = [f"a[{step}*{column} + {p}, {row} + {q}]" for p, q in offsets]
        tight = True
    else:
        forms = ["i + k", "j + k", "i - j + 10", "2*i + k", "i", "j", "k", "3*k + j"]
        texts = [
            f"a[{random.choice(forms)} + {random.randrange(4)}, {random.choice(forms)} + {random.randrange(4)}]"
            for _ in range(random.choice([1, 2, 3]))
        ]
        tight = False
    func = Builder({"y": (12, 12), "a": (90, 90)}, const=("a",), dtype="i32").comp(
        "i,j,k", " and ".join(bounds), [0, "i", 0, "j", 0, "k", 0], f"y[i, j] = y[i, j] + {' + '.join(texts)}"
    ).func()  # fmt: skip
    return Case(func, tight)


def tiled(random: Random, func: Func) -> Scheduled:
    p = Program(func)
    name = func.comps[0].name
    for loop in random.sample(["i", "j", "k"], random.randrange(4)):
        p[name].split(loop, random.choice([2, 3, 4]))
    loops = list(p[name].loops)
    random.shuffle(loops)
    p[name].reorder(*loops)
    return p.scheduled


def largest_footprint(s: Scheduled, name: str, of: str, loop: str) -> int:
    """The most elements that one iteration of the loop touches, by enumeration."""
    comp = s.func.comp(name)
    depth = s.nest(name).depth(loop)
    times = function(s.nest(name).relation.intersect_domain(comp.domain))
    touched: dict[Point, set[Point]] = {}
    loads = [as_load(s.func, x) for x in sites(comp)] + [comp.target]
    for load in (x for x in loads if x.buf == of):
        for instance, element in pairs(access_map(comp, load)[0]):
            touched.setdefault(times[instance][: 2 * depth + 2], set()).add(element)
    return max(map(len, touched.values()))


def same_results(func: Func, s: Scheduled, seed: int) -> None:
    given = random_inputs(func, seed)
    wanted, got = evaluate(func, given), run_tree(s.func, scan(s), given)
    for name, array in wanted.items():
        assert np.array_equal(array, got[name]), name


@pytest.mark.parametrize("seed", range(30))
def test_caches_hold_what_an_iteration_needs_and_no_more(seed: int) -> None:
    random = Random(seed)
    made = case(random)
    s = tiled(random, made.func)
    of, loop = random.choice(["a", "a", "a", "y"]), random.choice(s.nest("S0").loops)
    cached = memory.cache_identity(s, "S0", of, loop)
    size = int(np.prod(cached.func.buf(f"cache_{of}").extents))
    needed = largest_footprint(s, "S0", of, loop)
    assert size >= needed
    if made.tight and _is_box(made.func.comps[0].domain):
        assert size == needed
    check(cached)
    same_results(made.func, cached, seed)


def _is_box(domain: isl.Set) -> bool:
    hull = isl.Set.universe(domain.get_space())
    for k in range(domain.dim(isl.dim_type.set)):
        hull = hull.lower_bound_val(isl.dim_type.set, k, domain.dim_min_val(k))
        hull = hull.upper_bound_val(isl.dim_type.set, k, domain.dim_max_val(k))
    return bool(domain.is_equal(hull))


@pytest.mark.parametrize("seed", range(40))
def test_random_caches_in_random_programs_keep_results(seed: int) -> None:
    random = Random(seed)
    func = random_func(seed)
    s = as_written(func)
    for _ in range(2):
        comp = random.choice(func.comps)
        of = random.choice(sorted({as_load(s.func, x).buf for x in sites(comp)} | {comp.target.buf}))
        loops = s.nest(comp.name).loops
        try:
            s = memory.cache_identity(s, comp.name, of, random.choice(loops))
        except PlantError:
            continue
    check(s)
    same_results(func, s, seed)


# --- store --------------------------------------------------------------------------------------------------------


def _chain(random: Random) -> Func:
    """A producer, its readers by Access, and sometimes a recurrence of its own."""
    lag, lag2 = random.choice([0, 0, 1, 2]), random.choice([0, 1, 3])
    first, second = random.choice([("i", "j"), ("j", "i")])
    fused = random.random() < 0.6
    func = (
        Builder({"x": (9, 9), "z": (9, 9), "w": (9, 9)}, const=("x",), dtype="i32")
        .comp("i,j", "0 <= i < 6 and 0 <= j < 6", [0, first, 0, second, 0], "w[i, j] = x[i, j] + i")
        .comp(
            "i,j", f"{lag} <= i < 6 and {lag2} <= j < 6", [0 if fused else 1, first, 0, second, 1],
            "z[i, j] = x[i, j] * 2",
        )
        .func()
    )  # fmt: skip
    own = Buf("v", "i32", (6, 6), "local")
    producer, reader = func.comps
    i, j = Iter("i"), Iter("j")

    def back(of: Expr, amount: int) -> Expr:
        return Binary("sub", of, Val(amount, "i32"), "i32")

    read = Access("S0", (back(i, lag), back(j, lag2)), "i32")
    value = Binary("add", reader.value, read, "i32")
    producer = replace(producer, target=replace(producer.target, buf="v"))
    if random.random() < 0.3:
        producer = replace(producer, value=Binary("add", producer.value, Access("S0", (back(i, 1), j), "i32"), "i32"))
    return replace(func, bufs=(*func.bufs, own), comps=(producer, replace(reader, value=value)))


def _keeps(s: Scheduled) -> bool:
    """Every Access in its computation's domain finds the value it means: instances run one by one."""
    events: list[tuple[Point, int, str, Point]] = []
    for comp in s.func.comps:
        times = pairs(s.nest(comp.name).relation.intersect_domain(comp.domain))
        events += [(time, 0, comp.name, instance) for instance, time in times]
    events.sort()
    loads = {c.name: [(x, function(access_map(c, as_load(s.func, x))[0])) for x in sites(c)] for c in s.func.comps}
    meant = {
        c.name: {
            k: function(access_map(c, replace(as_load(s.func, x), buf=x.comp, indices=x.indices))[0])
            for k, x in enumerate(sites(c))
            if isinstance(x, Access)
        }
        for c in s.func.comps
    }
    targets = {c.name: function(access_map(c, c.target)[0]) for c in s.func.comps}
    domains = {c.name: set(targets[c.name]) for c in s.func.comps}
    holds: dict[tuple[str, Point], tuple[str, Point]] = {}
    for _, _, name, instance in events:
        comp = s.func.comp(name)
        for k, (site, elements) in enumerate(loads[name]):
            if isinstance(site, Access):
                wanted = meant[name][k][instance]
                load = as_load(s.func, site)
                if wanted in domains[site.comp] and holds.get((load.buf, elements[instance])) != (site.comp, wanted):
                    return False
        holds[comp.target.buf, targets[name][instance]] = (name, instance)
    return True


@pytest.mark.parametrize("seed", range(60))
def test_storage_contracts_exactly_where_values_allow(seed: int) -> None:
    random = Random(seed)
    func = _chain(random)
    s = as_written(func)
    i, j = Iter("i"), Iter("j")

    def ring(of: Expr, n: int) -> Expr:
        return Binary("mod", of, Val(n, "i32"), "i32")

    n = random.choice([1, 2, 3, 4])
    places: tuple[tuple[Expr, ...], tuple[int, ...]] = random.choice([
        ((), ()), ((i,), (6,)), ((j,), (6,)), ((ring(i, n), j), (n, 6)), ((i, ring(j, n)), (6, n)), ((i, j), (6, 6)),
        ((j, i), (6, 6)), ((Binary("add", i, j, "i32"),), (11,)),
    ])  # fmt: skip
    try:
        stored = memory.store(s, "S0", Buf("u", "i32", places[1], "local"), places[0])
        legal = True
    except IllegalSchedule:
        legal = False
    target = replace(func.comps[0].target, buf="u", indices=places[0])
    changed = replace(
        func,
        bufs=(*func.bufs, Buf("u", "i32", places[1], "local")),
        comps=(replace(func.comps[0], target=target), func.comps[1]),
    )
    assert legal == _keeps(replace(s, func=changed))
    if legal:
        assert _keeps(stored)
