"""Vectors of several narrow numbers on each lane: the same results as the function's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.backend.stages import plan_program
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import NARROW, Op, Program
from dspgen.vecdsl.ir.terms import terms_in
from dspgen.vecdsl.ir.verify import verify
from plant_core.interp.func import evaluate as run_plain
from plant_core.ir.func import Func
from plant_core.normalize.pipeline import canonical
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan
from tests.generators.narrow import narrow
from tests.unit.test_vecdsl_build import inputs_of, read

TARGET = load_target("hexagon_v66")


def in_turns(func: Func) -> Plan:
    """Four vectors in turn along each statement's columns, whole rows at once."""
    shapes = {}
    for comp in func.comps:
        extent = 1 + comp.domain.dim_max_val(1).to_python()
        lane = LoopShape(min(extent, 128), True, deal=4)
        sizes = [lane] if extent <= 128 else [lane, LoopShape(extent % 128, True, deal=4)]
        shapes[comp.name] = CompPlan(comp.iters, tuple((("j", s),) for s in sizes if s.span))
    return Plan.of(shapes)


def compiled(func: Func) -> Program:
    return verify(plan_program(func, in_turns(func), TARGET, Options()).promoted)


def same(func: Func, program: Program, seed: int) -> None:
    values = inputs_of(func, seed)
    wanted = run_plain(func, values)
    found = evaluate(program, TARGET.lanes, values, slack=512)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def text(body: str, elem: str = "unsigned char", height: int = 3, width: int = 128, room: int = 128) -> str:
    return f"""
void f({elem} y[restrict {height}][{width}], const unsigned char x[{height + 2}][{width + room}],
       const short z[{height}][{width + room}]) {{
#pragma scop
  for (int i = 0; i < {height}; i++)
    for (int j = 0; j < {width}; j++)
      {body}
#pragma endscop
}}
"""


def of(tmp_path: Path, source: str) -> Func:
    return canonical(read(tmp_path, source), reassoc=True)


def operations(program: Program) -> set[tuple[str, str]]:
    """Of vectors with several elements on each lane."""
    found, waiting = set(), list(terms_in(program.body))
    while waiting:
        term = waiting.pop()
        if isinstance(term, Op):
            waiting += term.args
            if term.type.vector and term.type.elem in NARROW:
                found.add((term.name, term.type.elem))
    return found


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_are_the_same(tmp_path: Path, seed: int) -> None:
    func = of(tmp_path, narrow(seed))
    program = compiled(func)
    same(func, program, seed)
    assert parse_program(print_program(program)) == program


@pytest.mark.parametrize(
    ("body", "wanted", "refused"),
    [
        ("y[i][j] = x[i][j] + x[i][j + 1];", {("add", "i8")}, {("add", "i16")}),
        ("y[i][j] = (x[i][j] + x[i][j + 1]) >> 1;", {("add", "i16"), ("shru", "i16"), ("join", "i8")}, {("add", "i8")}),
        ("y[i][j] = (x[i][j] - x[i][j + 1]) >> 1;", {("shr", "i16")}, set()),
        ("y[i][j] = x[i][j] > x[i][j + 1] ? x[i][j] : x[i][j + 1];", {("maxu", "i8")}, {("max", "i16")}),
        ("y[i][j] = abs(x[i][j] - x[i][j + 1]);", {("absdu", "i8")}, {("abs", "i16")}),
        ("y[i][j] = abs(x[i][j] + x[i][j + 1] - x[i][j + 2]) >> 2;", {("absdu", "i16")}, set()),
        ("y[i][j] = abs(z[i][j] >> 4) >> 2;", {("abs", "i16"), ("shr", "i16")}, set()),
        ("y[i][j] = z[i][j] * z[i][j] >> 1;", set(), {("mul", "i16"), ("shr", "i16")}),
        ("y[i][j] = z[i][j] * z[i][j];", {("mul", "i16")}, set()),
        ("y[i][j] = (z[i][j] + 1) >> 1;", set(), {("shr", "i16")}),
    ],
)
def test_what_is_narrow(tmp_path: Path, body: str, wanted: set[tuple[str, str]], refused: set[tuple[str, str]]) -> None:
    func = of(tmp_path, text(body))
    found = operations(compiled(func))
    assert wanted <= found
    assert not refused & found
    same(func, compiled(func), 1)


def test_sums_that_loops_carry_are_narrow(tmp_path: Path) -> None:
    """Nine bytes fit a half, seven hundred don't: what is carried tells, by the loop's length."""
    for taps, fits in ((9, True), (700, False)):
        body = f"{{ int s = 0; for (int t = 0; t < {taps}; t++) s += x[i][j + t]; y[i][j] = s >> 4; }}"
        func = of(tmp_path, text(body, room=700))
        program = compiled(func)
        assert (("shru", "i16") in operations(program)) == fits
        same(func, program, 2)
