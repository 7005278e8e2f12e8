"""Random schedules of random statements: the loop tree runs every instance at its times, in their order."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import Order, run_tree
from plant_core.interp.python_codegen import Inputs
from plant_core.ir import c_semantics
from plant_core.ir.func import (
    Binary,
    Buf,
    Cast,
    Comp,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    ScalarParam,
    Select,
    Unary,
    Val,
)
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tag, Tree
from plant_core.ir.scheduled import AstOption, Nest, Scheduled, as_written
from plant_core.scan import scan
from plant_core.support.location import Loc, PlantError
from tests.generators.verbs import draw_verbs, small_func

_LOC = Loc("random.c", 1)
_SIZES = ({"n": 6, "m": 6}, {"n": 4, "m": 7}, {"n": 3, "m": 2}, {"n": 0, "m": 4})
_CONTEXTS = (None, "n > 0 and m > 0", "n >= 4 and m >= n and n mod 4 = 0")

Instance = tuple[str, tuple[int, ...]]


def _value(expr: Expr, scope: dict[str, int]) -> int:
    match expr:
        case Val(value=value):
            return int(value)
        case Iter(name=name) | Param(name=name):
            return scope[name]
        case Cast(operand=operand):
            return _value(operand, scope)
        case Unary(op=op, operand=operand):
            return int(c_semantics.apply_unary(op, _value(operand, scope), "i32"))
        case Select(condition=condition, true=true, false=false):
            return _value(true if _value(condition, scope) else false, scope)
        case Binary(op="land", left=left, right=right):
            return int(bool(_value(left, scope)) and bool(_value(right, scope)))
        case Binary(op="lor", left=left, right=right):
            return int(bool(_value(left, scope)) or bool(_value(right, scope)))
        case Binary(op=op, left=left, right=right):
            return int(c_semantics.apply_binary(op, _value(left, scope), _value(right, scope), "i32"))
    raise AssertionError(f"{expr} in a tree")


def _trace(tree: Tree, scope: dict[str, int]) -> list[Instance]:
    """The instances that a tree runs; on the way, its subscripts are compared with those of its Comps."""
    match tree:
        case Seq(children=children):
            return [x for child in children for x in _trace(child, scope)]
        case For(iterator=name, lower=lower, upper=upper, step=step, body=body):
            steps = range(_value(lower, scope), _value(upper, scope), step)
            return [x for k in steps for x in _trace(body, {**scope, name: k})]
        case If(condition=condition, then=then):
            return _trace(then, scope) if _value(condition, scope) else []
        case Leaf(comp=comp, origin=origin, target=target):
            point = tuple(_value(o, scope) for o in origin)
            there = {**scope, **dict(zip(comp.iters, point, strict=True))}
            assert target is not None
            for ours, theirs in zip(target.indices, comp.target.indices, strict=True):
                assert _value(ours, scope) == _value(theirs, there)
            return [(comp.name, point)]
        case Do():
            raise AssertionError("no effects here")


def _in_order(scheduled: Scheduled, sizes: dict[str, int]) -> list[Instance]:
    """The instances sorted by time, and by place in the text where that is the same."""
    found: list[tuple[tuple[int, ...], int, Instance]] = []
    for number, comp in enumerate(scheduled.func.comps):
        relation = scheduled.nest(comp.name).relation.intersect_domain(comp.domain.set_tuple_name(comp.name))
        for name, size in sizes.items():
            place = relation.find_dim_by_name(isl.dim_type.param, name)
            if place >= 0:
                relation = relation.fix_val(isl.dim_type.param, place, isl.Val(size))
        points = relation.project_out_all_params().wrap().flatten()
        count, split = points.dim(isl.dim_type.set), len(comp.iters)

        def take(
            point: isl.Point, number: int = number, comp: Comp = comp, count: int = count, at: int = split
        ) -> None:
            place = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count)]
            found.append((tuple(place[at:]), number, (comp.name, tuple(place[:at]))))

        points.foreach_point(take)
    return [instance for _, _, instance in sorted(found)]


@dataclass(slots=True)
class _Shape:
    """The loops that all statements share, and what ties them to the iterators."""

    outer: list[str]
    inner: list[str]
    where: list[str]


def _domain(rng: random.Random, name: str, iters: tuple[str, ...], parametric: bool) -> isl.Set:
    where = []
    for k, x in enumerate(iters):
        high = rng.choice(["n", "n + 2", "2n", "m"]) if parametric else str(rng.randint(1, 10))
        if k and rng.random() < 0.35:
            high = rng.choice([f"{iters[0]} + 1", f"{high} - {iters[k - 1]}", f"7 - {iters[0]}"])
        low = rng.choice(["0", "0", "0", "1", "-3", *([iters[0]] if k else [])])
        where.append(f"{low} <= {x} < {high}")
        if rng.random() < 0.15:
            where.append(f"{x} mod {rng.choice([2, 3])} = {rng.choice([0, 1])}")
    if rng.random() < 0.1:
        where.append(f"({iters[0]} <= 2 or {iters[-1]} >= 3)")
    return isl.Set(f"[n, m] -> {{ {name}[{', '.join(iters)}] : {' and '.join(where)} }}")


def _shape(rng: random.Random, iters: tuple[str, ...]) -> _Shape:
    """Each iterator, perhaps skewed or reversed: as a loop, split, split with its own value inside, or overlapping."""
    order = list(iters)
    rng.shuffle(order)
    skewed = len(order) > 1 and rng.random() < 0.3
    shape = _Shape([], [], [])
    for x in order:
        source = f"({x} + {order[0]})" if skewed and x == order[-1] else x
        source = f"(-{source})" if rng.random() < 0.15 else source
        kind, size = rng.random(), rng.choice([2, 3, 4, 5])
        o, i = f"{x}o", f"{x}i"
        if kind >= 0.62:
            shape.outer.append(f"{x}t")
            shape.where.append(f"{source} = {x}t")
            continue
        shape.outer.append(o)
        shape.inner.append(i)
        if kind < 0.45:
            shape.where.append(f"{source} = {size}{o} + {i} and 0 <= {i} < {size}")
        elif kind < 0.55:
            shape.where.append(f"{i} = {source} and {size}{o} <= {source} < {size}{o} + {size}")
        else:
            shape.where.append(f"{source} = {size}{o} + {i} and 0 <= {i} < {size + 1}")
    return shape


def _random_schedule(seed: int) -> Scheduled:
    rng = random.Random(seed)
    parametric = rng.random() < 0.5
    iters = ("i", "j", "k")[: rng.randint(1, 3)]
    shape = _shape(rng, iters)
    loops = shape.outer + shape.inner
    if rng.random() < 0.3:
        rng.shuffle(loops)
    separated = rng.randrange(len(loops)) if rng.random() < 0.25 else None
    comps, nests = [], []
    # No promise is kept here, nor needed: such loops are only scanned otherwise.
    tags: tuple[tuple[str, Tag], ...] = ((rng.choice(loops), "gpu_block_x"),) if seed % 3 == 0 else ()
    for number in range(rng.randint(1, 3)):
        name = f"S{number}"
        positions = [0] * (len(loops) + 1)
        positions[rng.randrange(len(loops) + 1)] = number
        texts, where = [str(p) for p in positions], list(shape.where)
        if separated is not None:
            texts[separated] = "c"
            low, loop = positions[separated], loops[separated]
            where.append(f"((c = {low} and {loop} < 2) or (c = {low + 1} and {loop} >= 2))")
        times = ", ".join(x for pair in zip(texts, loops, strict=False) for x in pair) + f", {texts[-1]}"
        relation = isl.Map(f"{{ {name}[{', '.join(iters)}] -> [{times}] : {' and '.join(where)} }}")
        options: dict[str, AstOption] = {loop: "isolate" for loop in shape.inner if rng.random() < 0.6}
        if number == 0:
            kinds: tuple[AstOption, ...] = ("separate", "atomic")
            options |= {x: rng.choice(kinds) for x in loops if x not in options and rng.random() < 0.12}
        last = Binary("floordiv", Iter(iters[-1]), Val(2, "i32"), "i32")
        twice = Binary("add", Binary("mul", Val(2, "i32"), Iter(iters[0]), "i32"), last, "i32")
        target = Load("A", (*map(Iter, iters), twice), "f32")
        written = isl.Map(f"{{ {name}[{', '.join(iters)}] -> [{number}, {', 0, '.join(iters)}, 0] }}")
        domain = _domain(rng, name, iters, parametric)
        comps.append(Comp(name, iters, domain, written, target, Val(0.0, "f32"), _LOC))
        nests.append(Nest(name, tuple(loops), relation, tags, tuple(options.items())))
    known = rng.choice(_CONTEXTS)
    context = None if known is None else isl.Set(f"[n, m] -> {{ : {known} }}")
    scalars = (ScalarParam("n", "i32"), ScalarParam("m", "i32"))
    return Scheduled(Func("random", scalars, (), tuple(comps), _LOC, (), context), tuple(nests))


def _allows(context: isl.Set | None, sizes: dict[str, int]) -> bool:
    point = isl.Set(f"[n, m] -> {{ : n = {sizes['n']} and m = {sizes['m']} }}")
    return context is None or not context.intersect(point).is_empty()


@pytest.mark.parametrize("seed", [*range(36), 44, 203])
def test_a_tree_runs_each_instance_at_its_times(seed: int) -> None:
    scheduled = _random_schedule(seed)
    try:
        tree = scan(scheduled)
    except PlantError as error:
        assert "one time" in error.message  # two statements' or instances' times may clash here
        return
    for sizes in _SIZES:
        if _allows(scheduled.func.context, sizes):
            assert _trace(tree, dict(sizes)) == _in_order(scheduled, sizes), sizes


# --- programs -----------------------------------------------------------------------------------------------------

_KERNELS = {
    "matmul": """void f(int n, int m, float a[13][11], float b[11][9], float c[13][9]) {
        for (int i = 0; i < 13; i++) for (int j = 0; j < 9; j++) {
            c[i][j] = 0.0f;
            for (int k = 0; k < 11; k++) c[i][j] += a[i][k] * b[k][j];
        } }""",
    "lu": """void f(int n, int m, double a[12][12]) {
        for (int i = 0; i < 12; i++) {
            for (int j = 0; j < i; j++) {
                for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[k][j];
                a[i][j] /= a[j][j];
            }
            for (int j = i; j < 12; j++) for (int k = 0; k < i; k++) a[i][j] -= a[i][k] * a[k][j];
        } }""",
    "stencil": """void f(int n, int m, float a[40], float b[40]) {
        for (int t = 0; t < n; t++) {
            for (int i = 1; i < 39; i++) b[i] = 0.33f * (a[i - 1] + a[i] + a[i + 1]);
            for (int i = 1; i < 39; i++) a[i] = 0.33f * (b[i - 1] + b[i] + b[i + 1]);
        } }""",
    "strided": """void f(int n, int m, int a[64], short b[64]) {
        for (int i = 3; i < 60; i += 4) for (int j = 30; j >= i / 2; j -= 3) {
            a[i] += b[j] * (i - j);
            if (i % 3 == 1 && j < n) b[i] = (short)(a[j] + i);
        } }""",
    "guarded": """void f(int n, int m, int a[20][20], int s[1]) {
        for (int i = 0; i < n; i++) for (int j = i; j < m; j++) {
            if (i + j > 6) a[i][j] = i * j; else a[j][i] = i - j;
            s[0] = s[0] * 3 + a[i][j];
        } }""",
}


def _strip_mined(rng: random.Random, nest: Nest) -> Nest:
    """Each loop in one or two parts, nothing reordered: legal for every program."""
    inner, outer, where, loops = [], [], [], []
    options: list[tuple[str, AstOption]] = []
    for k, loop in enumerate(nest.loops):
        inner += [f"c{k}", f"t{k}"]
        size = rng.choice([0, 0, 2, 3, 5])
        outer += [f"c{k}", *([f"o{k}", "0", f"u{k}"] if size else [f"t{k}"])]
        loops += [f"{loop}_o", f"{loop}_i"] if size else [loop]
        if size:
            where.append(f"t{k} = {size}o{k} + u{k} and 0 <= u{k} < {size}")
            if rng.random() < 0.7:
                options.append((f"{loop}_i", "isolate"))
    inner.append(f"c{len(nest.loops)}")
    outer.append(f"c{len(nest.loops)}")
    change = isl.Map(f"{{ [{', '.join(inner)}] -> [{', '.join(outer)}] : {' and '.join(where) or 'true'} }}")
    return replace(nest, loops=tuple(loops), relation=nest.relation.apply_range(change), options=tuple(options))


def _kernel(tmp_path: Path, name: str) -> tuple[Func, dict[str, np.ndarray | int]]:
    path = tmp_path / f"{name}.c"
    path.write_text(_KERNELS[name])
    func = read_c(str(path))
    chance = np.random.default_rng(0)
    inputs: dict[str, np.ndarray | int] = {"n": 11, "m": 17}
    for buf in func.bufs:
        if buf.kind == "param":
            drawn = chance.integers(1, 20, buf.extents)
            inputs[buf.name] = drawn.astype(c_semantics.NUMPY[buf.dtype])
    return func, inputs


@pytest.mark.parametrize("name", sorted(_KERNELS))
def test_programs_in_their_own_order_and_strip_mined(name: str, tmp_path: Path) -> None:
    func, inputs = _kernel(tmp_path, name)
    plain = evaluate(func, inputs)
    scheduled = as_written(func)
    # Neighbours in one loop are strip-mined alike.
    for seed in range(5):
        again = [_strip_mined(random.Random(seed), nest) if seed else nest for nest in scheduled.nests]
        found = run_tree(func, scan(replace(scheduled, nests=tuple(again))), inputs)
        for array, expected in plain.items():
            np.testing.assert_array_equal(found[array], expected)


@pytest.mark.parametrize("seed", range(16))
def test_programs_after_verbs(seed: int) -> None:
    """In any order of their parallel loops, with full tiles apart."""
    rng, chance = random.Random(seed), np.random.default_rng(seed)
    func = small_func(rng)
    legal = [done for _, done in draw_verbs(rng, as_written(func), 6) if isinstance(done, Scheduled)]
    for scheduled in legal:
        nests = []
        for nest in scheduled.nests:
            options = {x: nest.option(x) or "isolate" for x in nest.loops if nest.option(x) or rng.random() < 0.4}
            nests.append(replace(nest, options=tuple(options.items())))
        tree = scan(replace(scheduled, nests=tuple(nests)))
        for size in (0, 3, 5):
            inputs: Inputs = {"n": size} | {
                p.name: chance.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)
            }
            plain = evaluate(func, inputs)
            orders: tuple[Order, ...] = ("forward", "reversed", "random")
            for order in orders:
                found = run_tree(scheduled.func, tree, inputs, order=order)
                for array, expected in plain.items():
                    np.testing.assert_array_equal(found[array], expected)
