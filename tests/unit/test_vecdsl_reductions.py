"""Partial results across lanes: every operator and type, conditions, and what else a reduction may read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.vecdsl.analysis.integer_ranges import over_reads
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Op
from dspgen.vecdsl.ir.terms import terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from plant_core.interp.func import evaluate as run_plain
from plant_core.ir.c_semantics import NUMPY, is_float
from plant_core.ir.func import Buf, Func
from plant_core.normalize.pipeline import canonical
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.location import IllegalSchedule
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

LANES = 4


def read(tmp_path: Path, dtype: str, head: str, body: str) -> Func:
    path = tmp_path / "k.c"
    path.write_text(f"typedef {dtype} T;\nvoid f({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return canonical(read_c(str(path)), reassoc=True)


def check(func: Func, shapes: dict[str, LoopShape]) -> None:
    """Every Comp in lanes by `shapes`, as far as it has the loops; integers of all sizes, floats that sum exactly."""
    named = {c.name: tuple((i, shapes[i]) for i in c.iters if i in shapes) for c in func.comps}
    plan = Plan.of({c.name: CompPlan(c.iters, (named[c.name],)) for c in func.comps if named[c.name]})
    check_legal(func, plan, reassoc=True, lanes=LANES)
    program = simplify(build(func, generate(func, plan), LANES))
    values: dict[str, object] = {}
    for number, buf in enumerate(p for p in func.params if isinstance(p, Buf)):
        source, kind = np.random.default_rng(number), NUMPY[buf.dtype]
        if is_float(buf.dtype):
            values[buf.name] = source.choice([-2, -1, -0.5, 0.5, 1, 2], buf.shape).astype(kind)
        else:
            ends = np.iinfo(kind)
            values[buf.name] = source.integers(ends.min, ends.max, buf.shape, endpoint=True).astype(kind)
    want = run_plain(func, values)  # type: ignore[arg-type]
    for stage in (program, simplify(hoist(promote(program, LANES), LANES))):
        got = evaluate(verify(stage), LANES, values, slack=over_reads(stage, LANES))
        for array, expected in want.items():
            np.testing.assert_array_equal(got[array], expected)
    assert any(isinstance(t, Op) and t.name.startswith("reduce_") for t in _deep(program))


def _deep(program):
    pending = list(terms_in(program.body))
    while pending:
        term = pending.pop()
        yield term
        pending += getattr(term, "args", ())


UPDATES = {
    "sum": "s += a[i];", "difference": "s -= a[i];", "product": "s *= a[i];", "max": "s = a[i] > s ? a[i] : s;",
    "min": "if (a[i] <= s) s = a[i];", "conditional sum": "if (a[i] > b[i]) s += a[i];",
    "sum or difference": "if (a[i] > b[i]) s += a[i]; else s -= b[i];",
    "conditional max": "if (b[i] > 1) { if (a[i] > s) s = a[i]; }", "two operands": "s += a[i] * b[i];",
}  # fmt: skip
BITS = {"and": "s &= a[i];", "or": "s |= a[i];", "xor": "s ^= a[i];", "conditional and": "if (b[i] > 1) s &= a[i];"}
INTEGERS = ("int", "unsigned", "short", "unsigned short", "signed char", "unsigned char")
CASES = [(t, u) for u in UPDATES for t in ("float", "double", *INTEGERS)] + [(t, u) for u in BITS for t in INTEGERS]


@pytest.mark.parametrize(("dtype", "update"), CASES)
def test_every_operator(tmp_path, dtype, update):
    body = f"T s = r[0]; for (int i = 0; i < 11; i++) {{ {(UPDATES | BITS)[update]} }} r[0] = s;"
    func = read(tmp_path, dtype, "const T a[11], const T b[11], T r[1]", body)
    check(func, {"i": LoopShape(8, lane=True, reduce=True)})
    check(func, {"i": LoopShape(11, lane=True, reduce=True)})


def test_several_in_one_loop_and_an_array_besides(tmp_path):
    body = "for (int i = 0; i < 13; i++) { s += a[i]; t = a[i] > t ? a[i] : t; s += b[i]; } r[0] = s; r[1] = t;"
    func = read(tmp_path, "float", "const T a[13], const T b[13], T r[2]", f"T s = 0, t = a[0]; {body}")
    check(func, {"i": LoopShape(4, lane=True, reduce=True)})


def test_other_elements_of_the_targets_array(tmp_path):
    body = "for (int k = 0; k < 9; k++) w[9][10] -= w[9][k] * w[k][10];"
    check(read(tmp_path, "float", "T w[12][12]", body), {"k": LoopShape(4, lane=True, reduce=True)})
    rows = "for (int i = 1; i < 12; i++) for (int k = 0; k < i; k++) x[i] -= w[i][k] * x[k];"
    check(read(tmp_path, "float", "const T w[12][12], T x[12]", rows), {"k": LoopShape(4, lane=True, reduce=True)})


def test_an_element_that_the_tile_updates_itself(tmp_path):
    func = read(tmp_path, "float", "T w[12]", "for (int k = 0; k < 9; k++) w[5] += w[k];")
    with pytest.raises(IllegalSchedule):
        check(func, {"k": LoopShape(4, lane=True, reduce=True)})


def test_the_place_of_an_extremum(tmp_path):
    body = "T m = a[0]; int k = 0; for (int i = 0; i < 13; i++) if (a[i] > m) { m = a[i]; k = i; } r[0] = m; r[1] = k;"
    func = read(tmp_path, "int", "const T a[13], T r[2]", body)
    check(func, {"i": LoopShape(8, lane=True, reduce=True)})
