"""Tiles partition the domain; the legality check agrees with the definition spelled out."""

from __future__ import annotations

import islpy as isl
import pytest

from plant_core.ir.time_2d1 import normalise_loops
from plant_core.support.location import IllegalSchedule, PlantError
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan, plan_default, tile_sets
from tests.support.plant_brute import count, is_legal, points
from tests.support.plant_builder import Builder, matmul
from tests.support.plant_random import random_func, random_plan

_SQUARE = "0 <= i < {n} and 0 <= j < {m}"


def _comp(iters, domain, params=()):
    schedule = [0]
    for name in iters.split(","):
        schedule += [name, 0]
    return Builder({"A": (1000,)}, params=params).comp(iters, domain, schedule, "A[i] = 1").func().comps[0]


_ROW = LoopShape(4, lane=True, cut=True)


def _shape(**loops):
    return tuple((n, s if isinstance(s, LoopShape) else LoopShape(s)) for n, s in loops.items())


def _box(origins, tile):
    """The points of the tiles at `origins`."""
    space = origins.get_space().map_from_set()
    names = [f"a{k}" for k in range(len(tile.spans))]
    ranges = " and ".join(f"a{k} <= b{k} < a{k} + {s}" for k, s in enumerate(tile.spans))
    relation = isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(n.replace('a', 'b') for n in names)}] : {ranges} }}")
    name = space.get_tuple_name(isl.dim_type.in_)
    relation = relation.set_tuple_name(isl.dim_type.in_, name).set_tuple_name(isl.dim_type.out, name)
    return origins.apply(relation)


def _check_partition(comp, plan):
    left = comp.domain
    found = tile_sets(comp, plan)
    for tiles in found:
        assert tiles.last is not None or _box(tiles.origins, tiles.tile).is_equal(tiles.points)
        assert tiles.points.is_subset(left)
        left = left.subtract(tiles.points)
        function = isl.Map.from_multi_pw_aff(tiles.to_origin).intersect_domain(tiles.points)
        assert function.domain().is_equal(tiles.points) and function.range().is_equal(tiles.origins)
        assert function.is_subset(isl.Map.from_multi_pw_aff(tiles.to_origin))
    assert left.is_empty()
    return found


def test_rests_go_to_the_next_shape():
    comp = _comp("i,j", _SQUARE.format(n=64, m=61))
    found = _check_partition(comp, CompPlan(("i", "j"), (_shape(i=6, j=61), _shape(i=4, j=61))))
    assert [t.tile.spans for t in found] == [(6, 61), (4, 61)]
    assert found[1].points.is_equal(isl.Set("{ S0[i, j] : 60 <= i < 64 and 0 <= j < 61 }"))


def test_a_rest_has_a_lattice_of_its_own():
    comp = _comp("i,j", _SQUARE.format(n=64, m=70))
    found = _check_partition(comp, CompPlan(("i", "j"), (_shape(i=11, j=16), _shape(i=9, j=16), _shape(i=11, j=6))))
    assert [t.tile.spans for t in found] == [(11, 16), (9, 16), (11, 6), (1, 1)]
    assert found[3].points.is_equal(isl.Set("{ S0[i, j] : 55 <= i < 64 and 64 <= j < 70 }"))


def test_too_small_a_domain_has_single_instances():
    (only,) = _check_partition(_comp("i", "0 <= i < 5"), CompPlan(("i",), (_shape(i=6),)))
    assert only.tile.spans == (1,)


@pytest.mark.parametrize(
    ("iters", "domain"),
    [
        ("i,j", "3 <= i < 20 and i <= j < 30"),
        ("i,j", "0 <= i < 20 and 0 <= j < 20 - i"),
        ("i,j", "0 <= i < 20 and (0 <= j < 5 or 9 <= j < 20)"),
        ("i,j", "0 <= i < 20 and 0 <= j < 20 and i != 7"),
        ("i,j", "0 <= i < 20 and 0 <= j < 20 and j mod 2 = 0"),
        ("i,j", "0 <= i < 20 and j = i"),
        ("i,j", "0 <= i < 0 and 0 <= j < 4"),
        ("i,j,k", "0 <= i < 9 and i <= j < 12 and j <= k < 17"),
        ("i,j,k", "0 <= i < 12 and 0 <= j < 12 and 0 <= k < 3 and 0 <= i - k < 10"),
    ],
)
def test_every_instance_is_covered_once(iters, domain):
    names = tuple(iters.split(","))
    shapes = (_shape(i=3, j=4), _shape(j=4), _shape(i=2), _shape(j=2))
    _check_partition(_comp(iters, domain), CompPlan(names, shapes))
    _check_partition(_comp(iters, domain), CompPlan(names[::-1], shapes))


@pytest.mark.parametrize("domain", ["0 <= i < n", "n <= i < 2 * n and i <= 77", "m <= i < n", "0 <= i and 2 * i < n"])
def test_symbolic_extents(domain):
    comp = _comp("i", domain, params=("n", "m"))
    found = _check_partition(comp, CompPlan(("i",), (_shape(i=6), _shape(i=4))))
    assert [t.tile.spans for t in found] == [(6,), (4,), (1,)]
    if domain == "0 <= i < n":
        assert found[0].points.is_equal(isl.Set("[n, m] -> { S0[i] : 0 <= i < 6 * floor(n / 6) }"))


def _covered(tiles):
    """Where rows of lanes begin, and how long they are."""
    return sorted((p, count(tiles, p)) for p in points(tiles.origins))


def test_rows_are_cut_short_where_they_end():
    comp = _comp("i,j", "0 <= i < 7 and i <= j < 7")
    (only,) = _check_partition(comp, CompPlan(("i", "j"), (_shape(j=_ROW),)))
    expected = [((i, j), min(4, 7 - j)) for i in range(7) for j in range(i, 7, 4)]
    assert _covered(only) == expected


def test_rows_of_a_tile_are_cut_short_together():
    comp = _comp("i,j", "0 <= i < n and m <= j < n", params=("n", "m"))
    both, rest = _check_partition(comp, CompPlan(("i", "j"), (_shape(i=2, j=_ROW), _shape(j=_ROW))))
    at = isl.Set("[n, m] -> { : n = 11 and m = 4 }")
    assert sorted(points(both.origins.intersect_params(at))) == [(i, j) for i in range(0, 10, 2) for j in (4, 8)]
    assert sorted(points(rest.origins.intersect_params(at))) == [(10, 4), (10, 8)]
    triangle = _comp("i,j", "0 <= i < 8 and i <= j < 8")
    with pytest.raises(PlantError, match="depend on each other"):
        tile_sets(triangle, CompPlan(("i", "j"), (_shape(i=2, j=_ROW),)))


def test_a_row_with_a_gap_is_two_rows():
    comp = _comp("i,j", "0 <= i < 3 and (0 <= j < 2 or 5 <= j < 11)")
    (only,) = _check_partition(comp, CompPlan(("i", "j"), (_shape(j=_ROW),)))
    assert _covered(only) == [((i, j), n) for i in range(3) for j, n in ((0, 2), (5, 4), (9, 2))]


def test_rows_with_steps_are_left():
    comp = _comp("i,j", "0 <= i < 3 and 0 <= j < 9 and j mod 2 = 0")
    (only,) = _check_partition(comp, CompPlan(("i", "j"), (_shape(j=_ROW),)))
    assert only.tile.lane is None


def test_random_partitions():
    for seed in range(30):
        func = normalise_loops(random_func(seed))
        plan = random_plan(func, seed, rows=seed % 2 == 0)
        for comp in func.comps:
            _check_partition(comp, plan.for_comp(comp))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (CompPlan(("i",)), "orders"),
        (CompPlan(("i", "j"), (_shape(q=2),)), "shape over"),
        (CompPlan(("i", "j"), (_shape(i=0),)), "span under 1"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, lane=True), j=LoopShape(2, lane=True)),)), "two loops"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, reduce=True)),)), "not across"),
        (CompPlan(("i", "j"), (), (0,)), "textual positions"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, inner=True)),)), "not one other"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, cut=True)),)), "not across"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, True, flip=True), j=LoopShape(2, inner=True)),)), "of two loops"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, True, row=True), j=LoopShape(2)),)), "several loops"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, deal=2)),)), "not across"),
        (CompPlan(("i", "j"), (_shape(i=LoopShape(2, True, flip=True, deal=2)),)), "flipped"),
    ],
)
def test_plans_are_checked(plan, message):
    with pytest.raises(PlantError, match=message):
        check_legal(matmul(4, 4, 4), Plan.of({"S0": plan}), reassoc=True)
    with pytest.raises(PlantError, match="lacks"):
        check_legal(matmul(4, 4, 4), Plan.of({"S9": plan}), reassoc=True)


# --- legality -----------------------------------------------------------------------------------------------------


def _matmul_plan(**loops):
    shape = _shape(**loops)
    outer = tuple((n, s) for n, s in shape if n != "k")
    return Plan.of({"S0": CompPlan(("i", "j"), (outer,)), "S1": CompPlan(("i", "j", "k"), (shape,))})


def test_register_tiles_of_a_matrix_product_are_legal():
    lanes = LoopShape(8, lane=True)
    check_legal(matmul(7, 16, 5), _matmul_plan(i=3, j=lanes), reassoc=False)
    check_legal(matmul(7, 16, 5), _matmul_plan(i=3, j=lanes, k=2), reassoc=False)
    check_legal(matmul(7, 16, 5), plan_default(matmul(7, 16, 5)), reassoc=False)


def test_a_tile_of_one_statement_alone_overtakes_the_other():
    plan = Plan.of({"S1": CompPlan(("i", "j", "k"), (_shape(i=3),))})
    with pytest.raises(IllegalSchedule, match=r"S0\[(\d),0\] -> S1\[\1,0,0\].*t\.c:2:3.*t\.c:3:3"):
        check_legal(matmul(3, 1, 1), plan, reassoc=True)


def test_loops_may_be_separated_by_new_positions():
    plan = {"S0": CompPlan(("i", "j"), (), (0, 0, 0)), "S1": CompPlan(("k", "i", "j"), (_shape(i=3),), (1, 0, 0, 0))}
    check_legal(matmul(7, 16, 5), Plan.of(plan), reassoc=True)
    with pytest.raises(IllegalSchedule):
        check_legal(matmul(7, 16, 5), Plan.of(plan | {"S1": CompPlan(("k", "i", "j"))}), reassoc=True)


def test_lanes_of_a_reduction_need_leave():
    func, nest = matmul(4, 4, 8), ("i", "j", "k")
    summed = Plan.of({"S1": CompPlan(nest, (_shape(k=LoopShape(8, lane=True, reduce=True)),))})
    check_legal(func, summed, reassoc=True)
    check_legal(matmul(4, 4, 8, "i32"), summed, reassoc=False)
    with pytest.raises(IllegalSchedule, match="may not be reordered"):
        check_legal(func, summed, reassoc=False)
    with pytest.raises(IllegalSchedule, match="S1"):
        check_legal(func, Plan.of({"S1": CompPlan(nest, (_shape(k=LoopShape(8, lane=True)),))}), reassoc=True)
    over_columns = CompPlan(("i", "j"), (_shape(j=LoopShape(4, lane=True, reduce=True)),))
    with pytest.raises(IllegalSchedule, match="no reduction"):
        check_legal(func, Plan.of({"S0": over_columns}), reassoc=True)


def test_a_target_stays_put_while_it_is_summed_in_parts():
    first = CompPlan(("i", "j"), (), (0, 0, 0))
    second = CompPlan(("k", "i", "j"), (_shape(k=LoopShape(2, split=True)),), (1, 0, 0, 0))
    with pytest.raises(IllegalSchedule, match="inside"):
        check_legal(matmul(4, 4, 8), Plan.of({"S0": first, "S1": second}), reassoc=True)


def test_a_partial_sum_is_not_read_inside_its_loop():
    b = Builder({"x": (8,), "y": (8,), "s": (1,)})
    b.comp("k", "0 <= k < 8", [0, "k", 0], "s[0] = s[0] + x[k]").comp("k", "0 <= k < 8", [0, "k", 1], "y[k] = s[0]")
    with pytest.raises(IllegalSchedule, match=r"S0\[\d\] -> S1\[\d\]"):
        check_legal(b.func(), Plan.of({"S0": CompPlan(("k",), (_shape(k=LoopShape(1, split=True)),))}), reassoc=True)


def test_one_vector_reads_before_it_writes():
    lanes = Plan.of({"S0": CompPlan(("i",), (_shape(i=LoopShape(4, lane=True)),))})
    ahead = Builder({"a": (20,)}).comp("i", "0 <= i < 12", [0, "i", 0], "a[i] = a[i + 1]").func()
    check_legal(ahead, lanes, reassoc=True)
    behind = Builder({"a": (20,)}).comp("i", "1 <= i < 13", [0, "i", 0], "a[i] = a[i - 1]").func()
    with pytest.raises(IllegalSchedule):
        check_legal(behind, lanes, reassoc=True)
    down = Builder({"a": (20,)}).comp("i", "0 <= i < 12", [0, "-i", 0], "a[i] = a[i + 1]").func()
    with pytest.raises(IllegalSchedule):
        check_legal(down, lanes, reassoc=True)


def test_lanes_of_two_loops_are_one_vector():
    domain = [0, "i", 0, "j", 0]
    across = Builder({"a": (80,)}).comp("i,j", "0 <= i < 8 and 0 <= j < 2", domain, "a[2 * i + j + 6] = a[2 * i + j]")
    groups = Plan.of({"S0": CompPlan(("i", "j"), (_shape(i=LoopShape(4, lane=True), j=LoopShape(2, inner=True)),))})
    check_legal(across.func(), groups, reassoc=True, lanes=4)
    for lanes, message in ((8, "would not be kept"), (3, "don't divide")):
        with pytest.raises(IllegalSchedule, match=message):
            check_legal(across.func(), groups, reassoc=True, lanes=lanes)


def test_the_vector_width_matters_only_if_it_is_given():
    far = Builder({"a": (20,)}).comp("i", "4 <= i < 12", [0, "i", 0], "a[i] = a[i - 4]").func()
    plan = Plan.of({"S0": CompPlan(("i",), (_shape(i=LoopShape(8, lane=True)),))})
    check_legal(far, plan, reassoc=True, lanes=4)
    for lanes in (8, None):
        with pytest.raises(IllegalSchedule):
            check_legal(far, plan, reassoc=True, lanes=lanes)


def test_symbolic_legality_names_the_parameter():
    b = Builder({"a": (100,)}, params=("n",)).comp("i", "1 <= i < n", [0, "i", 0], "a[i] = a[i - 1]")
    plan = Plan.of({"S0": CompPlan(("i",), (_shape(i=LoopShape(4, lane=True)),))})
    with pytest.raises(IllegalSchedule, match=r"S0\[\d+\] -> S0\[\d+\] with n = \d+"):
        check_legal(b.func(), plan, reassoc=True)


@pytest.mark.parametrize("seed", [*range(0, 60, 2), 387])
def test_the_check_agrees_with_enumeration(seed):
    func = random_func(seed)
    if sum(comp.domain.count_val().to_python() for comp in func.comps) > 500:
        func = func.with_comps(func.comps[:2])
    for number in range(2):
        plan = random_plan(func, 10 * seed + number, rows=seed % 4 == 0, deal=1 + seed % 3)
        try:
            check_legal(func, plan, reassoc=True, lanes=4)
        except IllegalSchedule as error:
            assert "can't accumulate" in str(error) or not is_legal(func, plan, lanes=4)
        else:
            assert is_legal(func, plan, lanes=4)


def test_full_tiles_may_leave_the_last_iteration_to_what_follows():
    """So that a row always ends in a tile that is cut short, whatever its length."""
    comp = _comp("i,j", "0 <= i < 3 and 0 <= j < n", params=("n",))
    spare = LoopShape(4, lane=True, spare=True)
    full, cut = _check_partition(comp, CompPlan(("i", "j"), (_shape(j=spare), _shape(j=_ROW))))
    assert cut.origins.params().is_equal(comp.domain.params())
    assert full.origins.params().is_equal(isl.Set("[n] -> { : n >= 5 }"))
    plain = tile_sets(comp, CompPlan(("i", "j"), (_shape(j=LoopShape(4, lane=True)), _shape(j=_ROW))))
    assert not plain[1].origins.params().is_equal(comp.domain.params())
