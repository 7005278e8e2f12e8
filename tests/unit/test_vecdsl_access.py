"""Accesses whose elements no constant stride tells: gathers, scatters, lanes over two loops, rows cut short, guards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.vecdsl.analysis.integer_ranges import over_reads
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Load, Program, Store
from dspgen.vecdsl.ir.terms import leaves, statements, terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.lanes.reverse_stores import straighten
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from plant_core.interp.func import evaluate as run_plain
from plant_core.ir.func import Binary, Buf, Expr, Func, Iter, Param, Val
from plant_core.ir.loop_tree import For, Leaf, Seq, Tile, Tree
from plant_core.normalize.scalars.forward_substitution import forward_scalars
from plant_core.scan.tile_plan_codegen import generate
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

LANES = 4
NUMPY = {"f32": np.float32, "i32": np.int32, "i16": np.int16, "u8": np.uint8}


def read(tmp_path: Path, text: str) -> Func:
    path = tmp_path / "k.c"
    path.write_text(text)
    return read_c(str(path))


def inputs_of(func: Func, seed: int, high: int, **scalars: int) -> dict[str, object]:
    """Arrays named `p...` are permutations, other integers lie in 0..high."""
    source = np.random.default_rng(seed)
    values: dict[str, object] = dict(scalars)
    for buf in func.params:
        if isinstance(buf, Buf):
            size = int(np.prod(buf.shape))
            drawn = source.permutation(size) if buf.name.startswith("p") else source.integers(0, high + 1, size)
            values[buf.name] = drawn.astype(NUMPY[buf.dtype]).reshape(buf.shape)
    return values


def stages(func: Func, tree: Tree) -> dict[str, Program]:
    found = {"build": build(func, tree, LANES)}
    found["simplify"] = simplify(found["build"])
    found["promote"] = promote(found["simplify"], LANES)
    found["straighten"] = straighten(found["promote"], LANES)
    found["hoist"] = hoist(found["straighten"], LANES)
    return found


def check_tree(func: Func, tree: Tree, high: int = 7, **scalars: int) -> dict[str, Program]:
    values = inputs_of(func, 3, high, **scalars)
    want = run_plain(func, values)  # type: ignore[arg-type]
    found = stages(func, tree)
    for name, program in found.items():
        got = evaluate(verify(program), LANES, values, slack=over_reads(program, LANES))
        for array, expected in want.items():
            np.testing.assert_array_equal(got[array], expected, err_msg=f"{name}: {array}")
    return found


def plan_of(func: Func, **shapes: LoopShape) -> Plan:
    shape = tuple(shapes.items())
    wanted = {
        c.name: CompPlan(c.iters, (tuple((n, s) for n, s in shape if n in c.iters),))
        for c in func.comps
        if set(shapes) <= set(c.iters)
    }
    return Plan.of(wanted)


def check(func: Func, plan: Plan, high: int = 7, **scalars: int) -> dict[str, Program]:
    return check_tree(func, generate(func, plan), high, **scalars)


LANE = LoopShape(10, lane=True)
GATHERS = {
    "gather": "const int a[40], const int x[40], int y[30]|y[i] = a[x[i]];",
    "nested": "const int a[40], const int x[40], int y[30]|y[i] = a[x[x[i] + 2] * 3 + 1] - x[a[i]];",
    "narrow": "const short a[40], const unsigned char x[40], int y[30]|y[i] = a[x[i]];",
    "window": "const int a[40], const int x[40], int y[30]|y[i] = a[i + x[3]] + a[x[i] + i];",
    "reversed": "const int a[40], const int x[40], int y[30]|y[29 - i] = a[29 - i + x[0]] * x[x[29 - i]];",
    "scatter": "int a[40], const int pi[30], int y[30]|a[pi[i]] = y[i] + i;",
    "modulo": "const int a[40], const int x[40], int y[30]|y[i] = a[(i + 3) % 7] + a[i & 5] + a[i >> 2];",
    "unknown modulo": "const int a[40], const int x[40], int y[30]|y[i] = a[(i * x[2]) % 9];",
    "table": "const int a[40], const int x[40], int y[30]|y[i] = a[i * i % 5];",
    "rows": "const int a[8][5], const int x[40], int y[30]|y[i] = a[x[i]][i % 5] + a[x[0]][x[1] % 5];",
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("flip", [False, True])
def test_subscripts_that_depend_on_memory_or_divide(tmp_path: Path, name: str, flip: bool) -> None:
    params, body = GATHERS[name].split("|", 1)
    func = read(tmp_path, f"void f({params}) {{ for (int i = 0; i < 30; i++) {{ {body} }} }}")
    check(func, Plan())
    found = check(func, plan_of(func, i=LoopShape(10, lane=True, flip=flip)))
    check(func, plan_of(func, i=LoopShape(15, lane=True, deal=3 if flip else 2)))
    assert any(not x.plain for s in statements(found["build"].body) for x in accesses(s))


def accesses(stmt: object) -> list[Load | Store]:
    found: list[Load | Store] = [stmt] if isinstance(stmt, Store) else []
    return found + [x for t in terms_in((stmt,)) for x in leaves(t) if isinstance(x, Load)]  # type: ignore[arg-type]


@pytest.mark.parametrize("inc", [1, 2])
def test_symbolic_strides(tmp_path: Path, inc: int) -> None:
    func = read(tmp_path, """void f(int inc, const int a[70], int y[70]) {
      for (int i = 0; i < 30; i++) y[i * inc] = a[(29 - i) * inc] + a[i]; }""")  # fmt: skip
    check(func, Plan(), inc=inc)
    check(func, plan_of(func, i=LANE), inc=inc)


def test_rows_at_computed_places_stay_contiguous(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[8][12], const int x[6], int y[6][12]) {
      for (int i = 0; i < 6; i++) for (int j = 0; j < 12; j++) y[i][j] = a[x[i]][j]; }""")  # fmt: skip
    program = check(func, plan_of(func, j=LoopShape(4, lane=True)))["hoist"]
    rows = [x for s in statements(program.body) for x in accesses(s) if isinstance(x, Load) and x.array == "a"]
    assert rows and all(x.stride == 1 and x.index is not None for x in rows)


@pytest.mark.parametrize("half", [1, 2, 4])
@pytest.mark.parametrize("span", [1, 3, 4, 6])
def test_lanes_over_two_loops(tmp_path: Path, half: int, span: int) -> None:
    func = read(tmp_path, f"""void f(const int a[60], const int w[8], int y[60]) {{
      for (int g = 0; g < 6; g++) for (int j = 0; j < {half}; j++) {{
        y[g * {2 * half} + j] = a[g * {2 * half} + j + {half}] * w[j] + g - 2 * j + a[g];
        y[g * {2 * half} + j + {half}] = a[w[j] + g]; }} }}""")  # fmt: skip
    shapes = {"g": LoopShape(span, lane=True), "j": LoopShape(half, inner=True)}
    check(func, plan_of(func, **shapes))


def test_two_loops_that_are_one_are_contiguous(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[8][2], int y[8][2]) {
      for (int i = 0; i < 8; i++) for (int j = 0; j < 2; j++) y[i][j] = a[i][j] + j; }""")  # fmt: skip
    program = check(func, plan_of(func, i=LoopShape(4, lane=True), j=LoopShape(2, inner=True)))["hoist"]
    assert all(x.plain and x.stride == 1 for s in statements(program.body) for x in accesses(s))


def cut_rows(func: Func, comp: int, count: Expr, tile: Tile) -> Tree:
    """`for i { rows of a vector each, as many as cover `count` iterations of j }`, the last one cut short."""
    one = Val(1, "i32")
    base = Iter("jv")
    rest = Binary("min", Binary("sub", count, base, "i32"), Val(LANES, "i32"), "i32")
    leaf = Leaf(func.comps[comp], (Iter("i"), base), tile, count=rest)
    inner = For("jv", Val(0, "i32"), count, LANES, leaf)
    return For("i", Val(0, "i32"), Val(9, "i32"), int(one.value), inner)


@pytest.mark.parametrize("flip", [False, True])
def test_rows_that_are_cut_short(tmp_path: Path, flip: bool) -> None:
    func = read(tmp_path, """void f(const int a[9][9], const int x[9], int y[9][9]) {
      for (int i = 0; i < 9; i++) for (int j = 0; j < i; j++) y[i][j] = a[j][i] + a[i][x[j]] * j; }""")  # fmt: skip
    tree = cut_rows(func, 0, Iter("i"), Tile((1, LANES), "j", flip=flip))
    program = check_tree(func, tree)["build"]
    assert any(isinstance(s, Store) and s.mask is not None for s in statements(program.body))


def test_sums_over_rows_that_are_cut_short(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[9][9], int y[9]) {
      for (int i = 0; i < 9; i++) for (int j = 0; j < i; j++) y[i] += a[i][j] * j; }""")  # fmt: skip
    check_tree(func, cut_rows(func, 0, Iter("i"), Tile((1, LANES), "j", reduce=True)))


def test_a_symbolic_row_runs_masked(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(int n, const int a[9][9], int y[9][9]) {
      for (int i = 0; i < 9; i++) for (int j = 0; j < n; j++) y[i][j] = a[i][j] + 1; }""")  # fmt: skip
    for n in (0, 1, 4, 7, 9):
        check_tree(func, cut_rows(func, 0, Param("n", "i32"), Tile((1, LANES), "j")), n=n)


GUARDS = {
    "store": "const int a[30], int y[30], const int x[30]|if (a[i] > 3) y[i] = a[i] * 2;",
    "else": "const int a[30], int y[30], const int x[30]|if (a[i] > 3) y[i] = 1; else y[i] = x[i];",
    "strided": "const int a[30], int y[90], const int x[30]|if (a[i] > 3) y[3 * i] = x[i];",
    "inner": "const int a[30], int y[30], const int x[30]|if (a[i] > 3) { if (x[i]) y[i] += x[i]; }",
    "narrow": "const short a[30], unsigned char y[30], const int x[30]|if (a[i] > 3) y[i] += a[i];",
    "scatter": "const int a[30], int y[30], const int pi[30]|if (pi[i] > a[i]) y[pi[i]] = a[i];",
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_assignments_under_conditions_become_masked_stores(tmp_path: Path, name: str) -> None:
    params, body = GUARDS[name].split("|", 1)
    func = read(tmp_path, f"void f({params}) {{ for (int i = 0; i < 30; i++) {{ {body} }} }}")
    for plan in (Plan(), plan_of(func, i=LANE)):
        program = check(func, plan)["straighten"]
        if name != "else":
            stores = [s for s in statements(program.body) if isinstance(s, Store)]
            assert stores and all(s.mask is not None for s in stores)


def test_guarded_loads_stay_inside_their_arrays(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[8], const int x[30], int y[30], int z[8]) {
      for (int i = 0; i < 30; i++) {
        y[i] = x[i] < 8 && a[x[i]] > 2 ? a[x[i]] : i >= 4 && i < 12 ? a[i - 4] : -1;
        z[x[i] < 8 ? x[i] : 0] = 1; } }""")  # fmt: skip
    inputs = inputs_of(func, 5, 20)
    want = np.asarray(inputs["y"]).copy()
    a, x = np.asarray(inputs["a"]), np.asarray(inputs["x"])
    for i in range(30):
        want[i] = a[x[i]] if x[i] < 8 and a[x[i]] > 2 else a[i - 4] if 4 <= i < 12 else -1
    func = replace(func, comps=tuple(c for c in func.comps if c.target.buf == "y"))
    for plan in (Plan(), plan_of(func, i=LANE)):
        for program in stages(func, generate(func, plan)).values():
            got = evaluate(verify(program), LANES, inputs, slack=over_reads(program, LANES))
            np.testing.assert_array_equal(got["y"], want)


def test_rows_with_several_trees(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[9][9], const int p0[9], int y[9][9], int z[9]) {
      for (int i = 0; i < 9; i++) {
        for (int j = 0; j < i; j++) y[i][j] = a[i][p0[j]];
        z[i] = y[i][0]; } }""")  # fmt: skip
    row = cut_rows(func, 0, Iter("i"), Tile((1, LANES), "j"))
    assert isinstance(row, For)
    last = Leaf(func.comps[1], (Iter("i"),), Tile((1,)))
    check_tree(func, replace(row, body=Seq((row.body, last))))


def test_an_index_that_a_guard_protects(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int a[30], const int x[30], int y[8]) {
      for (int i = 0; i < 30; i++) if (x[i] < 8) y[x[i]] = a[i]; }""")  # fmt: skip
    program = check(func, Plan(), 20)["hoist"]
    (store,) = [s for s in statements(program.body) if isinstance(s, Store)]
    assert isinstance(store.index, Load) and store.mask is not None


def test_loads_that_guards_of_their_own_load(tmp_path: Path) -> None:
    """Whether the second is read tells the first, which is the same: the guard of each asked for that of the other."""
    func = forward_scalars(read(tmp_path, """void f(const int a[8], const int x[30], int y[30]) {
      for (int i = 0; i < 30; i++) {
        int v = x[i] < 8 ? a[x[i]] : 9; int w = v > 4 ? v - 4 : v; y[i] = w > 2 ? w - v : w; } }"""))  # fmt: skip
    assert len(func.comps) == 1
    check(func, Plan(), 20)
    check(func, plan_of(func, i=LANE), 20)


@pytest.mark.parametrize("body", ["z[0] = a[i];", "if (a[i] > 5) z[1] = i;", "z[x[0]] = a[i] + i;", "z[2] = x[3];"])
def test_the_last_of_all_lanes_stays(tmp_path: Path, body: str) -> None:
    text = f"void f(const int a[30], const int x[30], int z[8]) {{ for (int i = 0; i < 30; i++) {{ {body} }} }}"
    func = read(tmp_path, text)
    check(func, plan_of(func, i=LANE))
