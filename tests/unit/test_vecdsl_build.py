"""The vector program of a tiled function computes what the function does; then every pass on it keeps that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.vecdsl.analysis.integer_ranges import over_reads
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Load, Loop, Op, Program, Store
from dspgen.vecdsl.ir.terms import leaves, statements, terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from plant_core.interp.func import evaluate as run_plain
from plant_core.ir.func import Buf, Func
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.location import PlantError
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan
from tests.support.plant_random import random_func, random_plan

LANES = 4
LANE = LoopShape(10, lane=True)
NUMPY = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
}  # fmt: skip


def read(tmp_path: Path, text: str) -> Func:
    path = tmp_path / "k.c"
    path.write_text(text)
    return read_c(str(path))


def inputs_of(func: Func, seed: int, **scalars: float) -> dict[str, object]:
    source = np.random.default_rng(seed)
    values: dict[str, object] = dict(scalars)
    for buf in func.params:
        if isinstance(buf, Buf):
            kind = NUMPY[buf.dtype]
            if np.issubdtype(kind, np.floating):
                values[buf.name] = source.integers(-8, 9, buf.shape).astype(kind) / kind(4)
            else:
                bounds = np.iinfo(kind)
                values[buf.name] = source.integers(bounds.min, bounds.max, buf.shape, endpoint=True).astype(kind)
    return values


def compile_all(func: Func, plan: Plan, lanes: int = LANES) -> list[tuple[str, Program]]:
    check_legal(func, plan, reassoc=True)
    built = build(func, generate(func, plan), lanes)
    stages = [("build", built)]
    stages.append(("simplify", simplify(built)))
    stages.append(("promote", promote(stages[-1][1], lanes)))
    stages.append(("hoist", hoist(stages[-1][1], lanes)))
    stages.append(("final", simplify(stages[-1][1])))
    return stages


def check(func: Func, plan: Plan, lanes: int = LANES, **scalars: float) -> Program:
    values = inputs_of(func, 1, **scalars)
    want = run_plain(func, values)  # type: ignore[arg-type]
    stages = compile_all(func, plan, lanes)
    for name, program in stages:
        got = evaluate(verify(program), lanes, values, slack=over_reads(program, lanes))
        for array, expected in want.items():
            np.testing.assert_array_equal(got[array], expected, err_msg=f"{name}: {array}")
    return stages[-1][1]


def lanes_over(func: Func, iterator: str, shape: LoopShape = LANE) -> Plan:
    return Plan.of({c.name: CompPlan(c.iters, (((iterator, shape),),)) for c in func.comps if iterator in c.iters})


def test_matmul_keeps_its_accumulators_in_registers(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const float A[7][5], const float B[5][18], float C[7][18]) {
      for (int i = 0; i < 7; i++) for (int j = 0; j < 18; j++) { C[i][j] = 0;
        for (int k = 0; k < 5; k++) C[i][j] += A[i][k] * B[k][j]; } }""")  # fmt: skip
    shapes = ((("i", LoopShape(3)), ("j", LANE)), (("i", LoopShape(1)), ("j", LoopShape(8, lane=True))))
    rest = ((("i", LoopShape(1)), ("j", LANE)), (("j", LoopShape(8, lane=True)),))
    plan = Plan.of(
        {"S0": CompPlan(("i", "j"), shapes + rest), "S1": CompPlan(("i", "j", "k"), shapes + rest)},
    )
    program = check(func, plan)
    inner = [s for s in statements(program.body) if isinstance(s, Loop) and not any(map(is_loop, s.body))]
    assert inner and all(not any(isinstance(s, Store) for s in loop.body) for loop in inner)
    for loop in inner:
        assert not any(x.array == "C" for t in terms_in(loop.body) for x in leaves(t) if isinstance(x, Load))


def is_loop(stmt: object) -> bool:
    return isinstance(stmt, Loop)


DOT = """void f(const int x[61], const int y[61], int r[1]) {
  r[0] = 7; for (int i = 0; i < 61; i++) r[0] += x[i] * y[i]; }"""


@pytest.mark.parametrize("span", [2, 4, 6, 8, 10, 61])
@pytest.mark.parametrize("rest", [(), (("i", LoopShape(3, lane=True, reduce=True)),)])
def test_lane_reduction(tmp_path: Path, span: int, rest: tuple[tuple[str, LoopShape], ...]) -> None:
    func = read(tmp_path, DOT)
    shapes = ((("i", LoopShape(span, lane=True, reduce=True)),), *((rest,) if rest else ()))
    program = check(func, Plan.of({"S1": CompPlan(("i",), shapes)}))
    assert not any(a.local for a in program.arrays), "partial sums stay in registers"


def test_split_and_lanes_over_different_loops(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int x[40], const int h[9], int y[32]) {
      for (int i = 0; i < 32; i++) { y[i] = i; for (int k = 0; k < 9; k++) y[i] -= h[k] * x[i + k]; } }""")  # fmt: skip
    shape = (("i", LANE), ("k", LoopShape(2, split=True)))
    tail = (("i", LANE),)
    plan = Plan.of({"S0": CompPlan(("i",), (tail,)), "S1": CompPlan(("i", "k"), (shape, tail))})
    program = check(func, plan)
    assert not any(a.local for a in program.arrays)


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("call", ["fmaxf(m[i], x[i][k])", "fminf(x[i][k], m[i])", "m[i] + 2.0f * x[i][k] - 1.0f"])
def test_rows_reduced_over_lanes(tmp_path: Path, call: str, outer: int) -> None:
    func = read(tmp_path, f"""#include <math.h>
      void f(const float x[6][17], float m[6]) {{
      for (int i = 0; i < 6; i++) for (int k = 0; k < 17; k++) m[i] = {call}; }}""")  # fmt: skip
    shape = (("i", LoopShape(outer)), ("k", LoopShape(5, lane=True, reduce=True)))
    check(func, Plan.of({"S0": CompPlan(("i", "k"), (shape,))}))


def test_triangular_reduction_with_empty_tiles(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int x[16], int r[16]) { for (int i = 0; i < 16; i++) { r[i] = 0;
      for (int k = 0; k < 16 - i; k++) r[i] += x[k] * x[k + i]; } }""")  # fmt: skip
    for shape in (LoopShape(4, lane=True, reduce=True), LoopShape(2, split=True)):
        check(func, Plan.of({"S1": CompPlan(("i", "k"), ((("k", shape),),))}))


def test_two_reductions_share_a_loop_but_not_a_sum(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int x[20], int s[2]) { for (int i = 0; i < 20; i++) {
      s[0] += x[i]; s[1] += x[i] * x[i]; } }""")  # fmt: skip
    shape = LoopShape(4, lane=True, reduce=True)
    program = check(func, lanes_over(func, "i", shape))
    assert not any(a.local for a in program.arrays)


@pytest.mark.parametrize("n", [0, 1, 5, 12])
def test_symbolic_bounds(tmp_path: Path, n: int) -> None:
    func = read(tmp_path, """void f(int n, const float x[12], float y[12], float s[1]) {
      for (int i = 0; i < n; i++) { y[i] = x[i] * (float)n + (float)i; s[0] += x[i]; } }""")  # fmt: skip
    check(func, Plan(), n=n)
    check(func, Plan.of({"S0": CompPlan(("i",), ((("i", LoopShape(4, lane=True)),),), (1, 0))}), n=n)
    check(func, Plan.of({"S0": CompPlan(("i",), ((("i", LoopShape(3)),),), (1, 0))}), n=n)


TYPES = {
    "narrow loads": "short a[21], unsigned char b[21], int y[21]|y[i] = a[i] * b[i] - i;",
    "narrow stores": "int a[21], short y[21], unsigned char z[21]|y[i] = a[i] + 3; z[i] = a[i] * 5;",
    "narrow sums": "short a[21], short y[21]|y[i] = (short)(a[i] + y[i]) >> 1; y[i] += a[i];",
    "unsigned": "unsigned a[21], unsigned b[21], unsigned y[21]|y[i] = a[i] > b[i] ? a[i] / 8u : (b[i] >> 3) % 16u;",
    "unsigned division": "unsigned a[21], unsigned char b[21], unsigned y[21]|y[i] = a[i] / (b[i] | 1u) + a[i] % 7u;",
    "signed division": "int a[21], int y[21]|y[i] = a[i] / 8 + a[i] % 4 + a[i] / -16 + a[i] / 7 + a[i] % 5;",
    "to float": "int a[21], unsigned b[21], unsigned char c[21], float y[21]|y[i] = (float)a[i] + (float)b[i] + c[i];",
    "to double": "int a[21], unsigned b[21], float c[21], double y[21]|y[i] = a[i] + (double)b[i] * c[i];",
    "from float": "float a[21], int y[21], unsigned w[21]|y[i] = a[i] * 9; w[i] = a[i] * a[i];",
    "from float to narrow": "float a[21], short z[21]|z[i] = a[i] * 3;",
    "logic": "int a[21], int b[21], int y[21]|y[i] = (a[i] > 3 && !(b[i] < 0)) || (a[i] & 1) ? ~a[i] ^ b[i] : -b[i];",
    "bytes": "signed char a[21], unsigned char b[21], signed char y[21]|y[i] = a[i] < b[i] ? a[i] << 2 : b[i] >> 1;",
    "roots": "float a[21], float y[21]|y[i] = sqrtf(fabsf(a[i])) / 0.75f;",
    "negative zero": "float a[21], float y[21]|y[i] = -0.0f * a[i] - 0.0f;",
    "iterators": "int a[21], int y[21]|y[i] = (i * i - 3) * a[20 - i] + (i < 7);",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(tmp_path: Path, name: str) -> None:
    params, body = TYPES[name].split("|", 1)
    text = f"#include <math.h>\nvoid f({params}) {{ for (int i = 0; i < 21; i++) {{ {body} }} }}"
    func = read(tmp_path, text)
    check(func, Plan())
    check(func, lanes_over(func, "i"))


def test_subscripts_with_quotients_resolve_in_the_tile(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int x[8], int y[16]) {
      for (int i = 0; i < 8; i++) y[2 * (i / 2) + i % 2] = x[i]; }""")  # fmt: skip
    check(func, Plan.of({"S0": CompPlan(("i",), ((("i", LoopShape(2)),),))}))


def test_other_subscripts_become_iterators_of_one_iteration(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const int x[40], int y[10][9]) {
      for (int i = 0; i < 10; i++) for (int j = 0; j < 9; j++)
        y[i][j] += x[i / 3 + (i - 5) / 2 + 2 + (i < 4 ? 1 : i % 4) * 3] + x[j + i / 2 + i / 2]; }""")  # fmt: skip
    program = check(func, Plan())
    assert not any(isinstance(t, Op) and t.name == "div" for t in terms_in(program.body))
    check(func, lanes_over(func, "j"))


def test_lanes_with_quotients_follow_a_pattern_or_a_table(tmp_path: Path) -> None:
    func = read(tmp_path, "void f(const int x[9], int y[21]) { for (int i = 0; i < 21; i++) y[i] = x[i / 3]; }")
    check(func, Plan.of({"S0": CompPlan(("i",), ((("i", LoopShape(3, lane=True)),),))}))
    program = check(func, lanes_over(func, "i", LoopShape(21, lane=True)))
    shown = [x for t in terms_in(program.body) for x in leaves(t) if isinstance(x, Load) and not x.plain]
    assert shown and not any(isinstance(y, Load) for x in shown if x.index for y in leaves(x.index))


def test_reversed_and_strided_lanes(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const float x[44], float y[22][3], const float c[3]) {
      for (int i = 0; i < 22; i++) for (int j = 0; j < 3; j++) y[i][j] = x[43 - 2 * i] * c[j] + x[i]; }""")  # fmt: skip
    check(func, lanes_over(func, "i"))


def test_recurrences_leave_memory(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const float x[30], float y[32]) {
      for (int i = 2; i < 32; i++) y[i] = x[i - 2] - 0.5f * y[i - 1] + 0.25f * y[i - 2]; }""")  # fmt: skip
    program = check(func, Plan())
    (loop,) = [s for s in program.body if isinstance(s, Loop)]
    assert len(loop.carried) == 2
    assert not any(x.array == "y" for t in terms_in(loop.body) for x in leaves(t) if isinstance(x, Load))


def test_local_scalars_disappear(tmp_path: Path) -> None:
    func = read(tmp_path, """void f(const float x[9], float y[9]) { for (int i = 0; i < 9; i++) {
      float a = x[i] * 2.0f; float b = a + a; float c = b * b; y[i] = c - a; } }""")  # fmt: skip
    program = check(func, Plan())
    assert not any(a.local for a in program.arrays)
    assert sum(isinstance(s, Store) for s in statements(program.body)) == 1


@pytest.mark.parametrize("seed", range(25))
def test_random_nests_and_plans(seed: int) -> None:
    func = random_func(seed)
    for number in range(2):
        plan = random_plan(func, 11 * seed + number, deal=1 + seed % 3)
        try:
            check_legal(func, plan, reassoc=True)
        except PlantError:
            continue
        check(func, plan, 2)


def test_multiplied_lanes(tmp_path: Path) -> None:
    func = read(tmp_path, "void f(const int x[16], int p[1]) { for (int i = 0; i < 16; i++) p[0] *= x[i] | 1; }")
    check(func, lanes_over(func, "i", LoopShape(4, lane=True, reduce=True)))
    check(func, lanes_over(func, "i", LoopShape(4, split=True)))
