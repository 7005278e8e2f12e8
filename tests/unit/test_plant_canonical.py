"""The passes that show a program's freedom keep what it computes, on random loops full of scalars."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.analysis.dependence import lane_candidates
from plant_core.interp.func import evaluate
from plant_core.ir.accesses import accesses
from plant_core.ir.c_semantics import NUMPY
from plant_core.ir.func import Binary, Buf, Func, Load, Select
from plant_core.normalize.pipeline import canonical
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

TYPES = ("int", "short", "unsigned", "float", "signed char")
HEAD = "const T a[20], const T b[20], const T c[20][20], T p[20], T q[20], T out[8]"
LOCALS = "T s = 1, t = 3, m = 2, x = 1, y = 2; int k = 7, l = 5;"
LAST = "out[0] = s; out[1] = t; out[2] = m; out[3] = x; out[4] = y; out[5] = (T)k; out[6] = (T)l;"


def read(tmp_path: Path, text: str) -> Func:
    path = tmp_path / "k.c"
    path.write_text(text)
    return read_c(str(path))


def kernel(dtype: str, body: str, head: str = HEAD) -> str:
    text = f"void f({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    return f"typedef {dtype} T;\n{text}"


def inputs_of(func: Func, seed: int) -> dict[str, object]:
    source = np.random.default_rng(seed)
    return {p.name: source.integers(-4, 5, p.shape).astype(NUMPY[p.dtype]) for p in func.params if isinstance(p, Buf)}


def same(func: Func, new: Func, seed: int = 0) -> None:
    values = inputs_of(func, seed)
    before, after = evaluate(func, values), evaluate(new, values)
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def statement(source: random.Random, i: str) -> str:
    def value() -> str:
        return source.choice([f"a[{i}]", f"b[{i}]", f"(T)(a[{i}] + b[{i}])", f"(T)(a[{i}] * 2)", f"c[1][{i}]"])

    def scalar() -> str:
        return source.choice("stmxy")

    v, op = value(), source.choice([">", ">=", "<", "<="])
    test = f"{value()} {op} {source.choice([value(), '0', '1'])}"
    r, w = scalar(), scalar()
    integer = source.choice("kl")
    return source.choice([
        f"{r} += {v};", f"{r} -= {v};", f"if ({test}) {r} += {v};",
        f"if ({test}) {r} -= {v}; else {r} += {value()};",
        f"{r} = {test} ? {r} : (T)({r} + {v});", f"if ({v} {op} {r}) {r} = {v};", f"{r} = {r} {op} {v} ? {r} : {v};",
        f"if ({v} {op} {r}) {{ {r} = {v}; {integer} = {i}; }}",
        f"if ({r} {op} {v}) {{ {integer} = {i} + 2; {r} = {v}; }}",
        f"if ({test}) {integer} = {i};", f"if ({test}) {r} = {v};", f"{r} = {v};", f"{r} = {w};",
        f"{r} += 3;", f"p[{i}] = (T)({v} + {r});", f"q[{i}] = (T)(p[{i}] - {r});",
        f"if ({test}) {{ {r} = {v}; q[{i}] = {r}; }}",
    ])  # fmt: skip


def program(source: random.Random) -> str:
    low, high = source.randrange(3), source.randrange(4, 20)
    body = " ".join(statement(source, "i") for _ in range(source.randrange(1, 5)))
    loop = f"for (int i = {low}; i < {high}; i++) {{ {body} }}"
    if source.random() < 0.25:
        inner = " ".join(statement(source, "j") for _ in range(source.randrange(1, 3)))
        reset = source.choice(["", "s = 0;", "m = c[i][0]; k = 0;"])
        loop = f"for (int i = {low}; i < 8; i++) {{ {reset} for (int j = 0; j < {high}; j++) {{ {inner} }} {body} }}"
    return kernel(source.choice(TYPES), f"{LOCALS} {loop} {LAST}")


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same(tmp_path, seed):
    func = read(tmp_path, program(random.Random(seed)))
    same(func, canonical(func, reassoc=True), seed)
    same(func, canonical(func, reassoc=False), seed)


def value_of(func: Func, target: str) -> object:
    return next(c.value for c in func.comps if c.target.buf == target and c.iters)


@pytest.mark.parametrize("text", ["a[i] > m ? a[i] : m", "m >= a[i] ? m : a[i]", "m < a[i] ? a[i] : m"])
@pytest.mark.parametrize("dtype", ["float", "short", "unsigned char", "int"])
def test_the_larger_of_two_is_their_max(tmp_path, text, dtype):
    func = read(tmp_path, kernel(dtype, f"T m = 1; for (int i = 0; i < 20; i++) m = {text}; out[0] = m;"))
    value = value_of(canonical(func, reassoc=True), "m")
    assert isinstance(value, Binary) and value.op == "max"
    strict = value_of(canonical(func, reassoc=False), "m")
    assert isinstance(strict, Select) == (dtype == "float")


def test_a_place_that_nobody_reads_leaves_the_maximum_alone(tmp_path):
    """The comparison is a variable first, as two statements are under it."""
    text = "T m = 1; int k = 0; for (int i = 0; i < 20; i++) if (a[i] > m) { m = a[i]; k = i; } out[0] = m;"
    func = read(tmp_path, kernel("float", text))
    value = value_of(canonical(func, reassoc=True), "m")
    assert isinstance(value, Binary) and value.op == "max"
    same(func, canonical(func, reassoc=True))


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("if (a[i] > 0) s += a[i];", "add"),
        ("if (a[i] > 0) s -= b[i];", "sub"),
        ("if (a[i] > 0) s += a[i]; else s -= b[i];", "add"),
        ("if (a[i] > 0) s *= b[i];", "mul"),
        ("if (a[i] > 0) if (b[i] > 0) s += b[i];", "add"),
        ("s = a[i] > 0 ? s : s + b[i];", "add"),
    ],
)
def test_a_conditional_update_is_a_reduction(tmp_path, text, op):
    func = read(tmp_path, kernel("float", f"T s = 1; for (int i = 0; i < 20; i++) {{ {text} }} out[0] = s;"))
    new = canonical(func, reassoc=True)
    value = value_of(new, "s")
    assert isinstance(value, Binary) and value.op == op and isinstance(value.left, type(new.comps[0].target))
    assert [c.kind for c in lane_candidates(new)] == ["reduction"]
    same(func, new)


def test_updates_of_elements_that_no_other_iteration_has_stay(tmp_path):
    func = read(tmp_path, kernel("float", "for (int i = 0; i < 20; i++) if (a[i] > 0) p[i] += a[i];"))
    assert isinstance(canonical(func, reassoc=True).comps[0].value, Select)


@pytest.mark.parametrize(
    "text",
    [
        "x = b[3]; for (int i = 0; i < 20; i++) { p[i] = a[i] + x; x = b[i]; }",
        "for (int i = 2; i < 20; i++) { p[i] = a[i] + x * y; y = x; x = b[i]; } out[1] = x; out[2] = y;",
        "for (int i = 0; i < 20; i++) { p[i] = x * a[i]; x = q[i] + a[i]; q[i] = p[i] + b[i]; }",
        "int k = 19; for (int i = 0; i < 20; i++) { p[i] = a[i] + b[k]; k = i; }",
        "int k = 3; for (int i = 1; i < 20; i++) { p[i] = b[k] - a[i]; k = i + 1; }",
        "for (int i = 0; i < 20; i++) { x += 2; p[i] = x * b[i]; } out[0] = x;",
        "for (int i = 0; i < 20; i++) { if (a[i] > b[i]) { x = a[i]; p[i] = x; } }",
        "for (int i = 0; i < 20; i++) { p[i] = a[i]; x += p[i]; q[i] = b[i]; x += q[i]; } out[0] = x;",
    ],
)
def test_scalars_that_iterations_hand_on_free_the_lanes(tmp_path, text):
    func = read(tmp_path, kernel("float", f"T x = 1, y = 2; {text}"))
    new = canonical(func, reassoc=True)
    same(func, new)
    shapes = {c.name: LoopShape(4, lane=True, reduce=not c.target.indices) for c in new.comps if c.iters}
    plans = {name: CompPlan(("i",), ((("i", shape),),)) for name, shape in shapes.items()}
    check_legal(new, Plan.of(plans), reassoc=True, lanes=4)


def test_a_load_at_a_subscript_carried_twice(tmp_path):
    body = "for (int i = 0; i < 20; i++) { p[i] = a[i] * b[k] + b[l]; l = k; k = i; }"
    func = read(tmp_path, kernel("float", f"int k = 3, l = 2; {body}"))
    new = canonical(func, reassoc=False)
    same(func, new)
    assert not any(isinstance(i, Load) for c in new.comps for a in accesses(c.value) for i in a.indices)


@pytest.mark.parametrize(
    "text",
    [
        "for (int i = 0; i < 20; i++) { x = x + a[i]; p[i] = x; }",  # a prefix sum
        "for (int i = 0; i < 20; i++) { p[i] = x; x = p[i] * a[i]; }",
        "for (int i = 0; i < 20; i++) { if (a[i] > 0) x = b[i]; p[i] = x; }",
    ],
)
def test_a_scalar_made_of_itself_is_no_reduction(tmp_path, text):
    func = read(tmp_path, kernel("float", f"T x = 1; {text}"))
    new = canonical(func, reassoc=True)
    same(func, new)
    assert not [c for c in lane_candidates(new) if "S1" in dict(c.loop.members)]


EXTREMUM = "T m = a[0]; int k = 0; for (int i = 0; i < 20; i++) if (a[i] {} m) {{ m = a[i]; k = i; }}"


@pytest.mark.parametrize("op", [">", ">=", "<", "<="])
@pytest.mark.parametrize("dtype", ["float", "int", "short", "unsigned"])
def test_the_place_of_an_extremum(tmp_path, op, dtype):
    func = read(tmp_path, kernel(dtype, f"{EXTREMUM.format(op)} out[0] = m; out[1] = (T)k;"))
    new = canonical(func, reassoc=True)
    assert [c.kind for c in lane_candidates(new)] == ["reduction", "reduction"]
    for seed in range(4):
        same(func, new, seed)
    if dtype == "float":
        assert "reduction" not in [c.kind for c in lane_candidates(canonical(func, reassoc=False), reassoc=False)]


def test_the_place_of_an_extremum_in_two_loops(tmp_path):
    body = "for (int i = 1; i < 9; i++) for (int j = 3; j < 20; j++) if (c[i][j] > m) { m = c[i][j]; k = i; l = j; }"
    func = read(tmp_path, kernel("int", f"T m = -9; int k = 0, l = 0; {body} out[0] = m; out[1] = k; out[2] = l;"))
    new = canonical(func, reassoc=True)
    assert {c.kind for c in lane_candidates(new)} == {"reduction"}
    for seed in range(4):
        same(func, new, seed)


def test_the_last_of_several_assignments(tmp_path):
    body = "for (int i = 4; i < 20; i++) if (a[i] < b[i]) { k = 2 * i; x = c[3][i]; }"
    func = read(tmp_path, kernel("int", f"T x = 5; int k = -1; {body} out[0] = x; out[1] = k;"))
    new = canonical(func, reassoc=True)
    assert "blocked" not in {c.kind for c in lane_candidates(new)} and lane_candidates(new)
    for seed in range(4):
        same(func, new, seed)


def test_a_scalar_that_only_subscripts_read_may_stay(tmp_path: Path) -> None:
    body = "int j = -1; for (int i = 0; i < 20; i++) { if (b[i] > 0) { j++; p[j] = b[i]; } }"
    func = read(tmp_path, kernel("float", body))
    same(func, canonical(func, reassoc=True))
