"""Recurrences across lanes: how they are read off statements, kept by legality, built, and run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.pipeline import run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.vecdsl.analysis.integer_ranges import over_reads
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Loop
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from plant_core.analysis.linear_recurrences import recurrence_of
from plant_core.interp.func import evaluate as run_plain
from plant_core.interp.tiled_loop_tree import evaluate_tree
from plant_core.ir.c_semantics import NUMPY, is_float
from plant_core.ir.func import Buf, Func
from plant_core.normalize.pipeline import canonical
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.location import IllegalSchedule
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

LANES = 8
SIZE = 70
HEAD = "T x[70], const T a[70], const T b[70], T y[70]"


def read(folder: Path, body: str, dtype: str = "int", head: str = HEAD, *, reassoc: bool = True) -> Func:
    path = folder / "k.c"
    path.write_text(f"typedef {dtype} T;\nvoid f({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return canonical(read_c(str(path)), reassoc=reassoc)


def scanned(func: Func, span: int, **more: bool) -> Plan:
    """Every statement along its innermost loop across lanes, at least one as a recurrence."""
    plans, scans = {}, 0
    for comp in func.comps:
        if comp.iters:
            scan = recurrence_of(comp, comp.iters[-1]) is not None
            shape = ((comp.iters[-1], LoopShape(span, lane=True, scan=scan, **more)),)
            plans[comp.name] = CompPlan(comp.iters, (shape,))
            scans += scan
    assert scans
    return Plan.of(plans)


def check(func: Func, plan: Plan, *, exact: bool = True) -> None:
    """The tree and the program that a plan makes give what the Func does."""
    check_legal(func, plan, reassoc=True, lanes=LANES)
    tree = generate(func, plan)
    program = simplify(build(func, tree, LANES))
    values: dict[str, object] = {}
    for number, buf in enumerate(p for p in func.params if isinstance(p, Buf)):
        source, kind = np.random.default_rng(number), NUMPY[buf.dtype]
        if is_float(buf.dtype):
            values[buf.name] = source.uniform(-1, 1, buf.shape).astype(kind)
        else:
            ends = np.iinfo(kind)
            values[buf.name] = source.integers(ends.min, ends.max, buf.shape, endpoint=True).astype(kind)
    want = run_plain(func, values)  # type: ignore[arg-type]
    by_tree = evaluate_tree(func, tree, values, lanes=LANES)  # type: ignore[arg-type]
    for array, expected in want.items():
        np.testing.assert_array_equal(by_tree[array], expected)
    for stage in (program, simplify(hoist(promote(program, LANES), LANES))):
        got = evaluate(verify(stage), LANES, values, slack=over_reads(stage, LANES))
        for array, expected in want.items():
            if exact:
                np.testing.assert_array_equal(got[array], expected)
            else:
                np.testing.assert_allclose(got[array], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("body", "family", "distance", "factor", "term"),
    [
        ("x[i] = x[i - 1] + b[i];", "linear", 1, False, True),
        ("x[i] = x[i - 2] * a[i];", "linear", 2, True, False),
        ("x[i] = b[i] - (x[i - 1] - a[i]) * b[i];", "linear", 1, True, True),
        ("x[i] = a[i] > 0 ? x[i - 1] * 2 : b[i];", "linear", 1, True, True),
    ],
)
def test_recurrences_are_read_off(
    body: str, family: str, distance: int, factor: bool, term: bool, tmp_path: Path
) -> None:
    comp = read(tmp_path, f"for (int i = 2; i < 69; i++) {body}").comps[0]
    found = recurrence_of(comp, "i")
    assert found is not None
    assert (found.family, found.distance) == (family, distance)
    assert (found.factor is not None, found.term is not None) == (factor, term)


@pytest.mark.parametrize(
    "body",
    [
        "x[i] = x[i - 1] * x[i - 1];",
        "x[i] = x[i - 1] + x[i - 2];",
        "x[i] = b[i] / (x[i - 1] | 1);",
        "x[i] = x[i] + b[i];",
        "x[i] = x[i + 1] + b[i];",
        "x[i] = y[x[i - 1] & 63];",
        "x[i] = x[i - 1] > 0 ? x[i - 1] : b[i];",
    ],
)
def test_other_statements_are_no_first_order_recurrences(body: str, tmp_path: Path) -> None:
    comps = read(tmp_path, f"for (int i = 2; i < 69; i++) {body}").comps
    assert all(recurrence_of(c, "i") is None for c in comps if c.target.buf == "x")


def test_a_scan_keeps_the_order_only_of_its_own_recurrence(tmp_path: Path) -> None:
    func = read(tmp_path, "for (int i = 3; i < 70; i++) x[i] = x[i - 1] * a[i] + x[i - 3];")
    assert recurrence_of(func.comps[0], "i") is None
    plain = CompPlan(("i",), ((("i", LoopShape(8, lane=True)),),))
    func = read(tmp_path, "for (int i = 1; i < 70; i++) x[i] = x[i - 1] + a[i];")
    with pytest.raises(IllegalSchedule):
        check_legal(func, Plan.of({func.comps[0].name: plain}), reassoc=True, lanes=LANES)
    check(func, scanned(func, 8))


def test_strict_floats_are_not_scanned(tmp_path: Path) -> None:
    func = read(tmp_path, "for (int i = 1; i < 70; i++) x[i] = x[i - 1] + a[i];", "float")
    with pytest.raises(IllegalSchedule, match="floating-point results keep their order"):
        check_legal(func, scanned(func, 8), reassoc=False, lanes=LANES)


def test_a_loop_against_the_recurrence_is_refused(tmp_path: Path) -> None:
    """`x[i - 1]` of a loop that runs down is the old value: no lane may see the new one."""
    func = read(tmp_path, "for (int i = 69; i >= 1; i--) x[i] = x[i - 1] + a[i];")
    plan = Plan.of({func.comps[0].name: CompPlan(("i",), ((("i", LoopShape(8, lane=True, scan=True)),),))})
    with pytest.raises(IllegalSchedule, match="no recurrence of first order"):
        check_legal(func, plan, reassoc=True, lanes=LANES)


def random_loop(draw: random.Random, floats: bool) -> str:
    """A recurrence up or down, with other statements beside it."""
    far, down = draw.choice([1, 1, 1, 2, 4]), draw.random() < 0.3
    x = f"x[i + {far}]" if down else f"x[i - {far}]"
    value = draw.choice(
        ["{x} + b[i]", "{x} * a[i]", "{x} * a[i] + b[i]", "b[i] - {x} * a[i]", "{x} * C + y[i]", "a[i] - {x}"]
        + ["{x} + C", "a[i] > 0 ? {x} + b[i] : {x}", "a[i] > b[i] ? b[i] : {x} - a[i]", "{x} + {y}"]
    )
    ahead = "x[i - 1]" if down else "x[i + 1]"
    value = value.format(x=x, y=ahead if far == 1 else "y[i]").replace("C", "0.5f" if floats else "3")
    beside = draw.choice(["", "", "y[i] = x[i] + b[i];", "y[i] = a[i];"])
    if "y[i]" in value:
        beside = ""
    head = "for (int i = 65; i >= 4; i--)" if down else "for (int i = 4; i < 66; i++)"
    return f"{head} {{ x[i] = {value}; {beside} }}"


@pytest.mark.parametrize("seed", range(24))
def test_random_recurrences_keep_their_results(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    dtype = draw.choice(["int", "int", "unsigned", "short", "float"])
    func = read(tmp_path, random_loop(draw, dtype == "float"), dtype)
    check(func, scanned(func, draw.choice([8, 16, 24, 62])), exact=dtype != "float")


@pytest.mark.parametrize("dtype", ["int", "unsigned", "float"])
@pytest.mark.parametrize("op", ["<", ">"])
def test_running_extrema(dtype: str, op: str, tmp_path: Path) -> None:
    body = f"T m = b[0]; for (int i = 0; i < 70; i++) {{ if (b[i] {op} m) m = b[i]; y[i] = m; }}"
    func = read(tmp_path, body, dtype)
    check(func, scanned(func, 16))


def test_running_sums_get_an_element_for_each_iteration(tmp_path: Path) -> None:
    func = read(tmp_path, "T s = 0; for (int i = 0; i < 70; i++) { s += b[i]; y[i] = s; } x[0] = s;")
    check(func, scanned(func, 16))
    strict = read(tmp_path, "T s = 0; for (int i = 0; i < 70; i++) { s += b[i]; y[i] = s; }", "float", reassoc=False)
    assert all(recurrence_of(c, i) is None for c in strict.comps for i in c.iters)


def test_rows_that_are_cut_short(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 20; i++) for (int j = 1; j <= i; j++) x[i][j] = x[i][j - 1] * a[i] + b[j];"
    func = read(tmp_path, body, head="T x[20][20], const T a[20], const T b[20]")
    check(func, scanned(func, LANES, cut=True))


def test_the_carry_stays_in_a_register(tmp_path: Path) -> None:
    func = read(tmp_path, "for (int i = 1; i < 65; i++) x[i] = x[i - 1] * a[i] + b[i];")
    program = promote(simplify(build(func, generate(func, scanned(func, 16)), LANES)), LANES)
    loops = [s for s in statements(program.body) if isinstance(s, Loop)]
    assert [len(loop.carried) for loop in loops] == [1]


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 1; i < 250; i++) x[i] = x[i - 1] * a[i] + b[i];",
        "float s = 0; for (int i = 0; i < 250; i++) { s += b[i]; y[i] = s; }",
        "for (int i = 1; i < 250; i++) { y[i] += a[i] * b[i]; x[i] = x[i - 1] + y[i]; }",
    ],
)
def test_scans_win_on_a_machine(body: str, tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "k.c"
    head = "float x[250], const float a[250], const float b[250], float y[250]"
    path.write_text(f"void f({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    result = run_file(str(path), ft_m7002, Options())
    assert result.verified
    assert any("a recurrence by prefixes" in r.message for r in result.remarks)
    assert result.cycles < 3 * 250
