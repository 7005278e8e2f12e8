"""Loops that are rewritten by fewer rules than the rest of their program."""

from __future__ import annotations

from pathlib import Path

from dspgen.backend.stages import Planned, plan_program, rewrite
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.rewrite.optimize import Effort
from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.loop_origins import outermost_loops
from dspgen.vecdsl.ir.program import Loop
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

TEXT = """
void two(const float a[64], const float b[64][64], float c[64], float d[64]) {
  for (int i = 0; i < 64; i++)
    for (int k = 0; k < 64; k++)
      c[i] += a[k] * b[k][i];
  for (int j = 0; j < 64; j++)
    for (int k = 0; k < 64; k++)
      d[j] += a[k] * b[k][j];
}
"""
TARGET = load_target("ft_m7002")


def planned(tmp_path: Path) -> Planned:
    path = tmp_path / "two.c"
    path.write_text(TEXT)
    func = read_c(str(path))
    plans = []
    for comp in func.comps:
        lane, k = comp.iters
        plans.append((comp.name, CompPlan((lane, k), (((lane, LoopShape(16, lane=True)), (k, LoopShape(4))),))))
    return plan_program(func, Plan(tuple(plans)), TARGET, Options())


def test_outermost_loops_know_their_comps(tmp_path: Path) -> None:
    made = planned(tmp_path)
    assert made.tree is not None
    found = outermost_loops(made.tree, made.built)
    assert sorted(map(sorted, found.values())) == [["S0"], ["S1"]]
    loops = [s.iterator for s in made.promoted.body if isinstance(s, Loop)]
    assert loops == list(found)


def test_a_loop_with_fewer_rules_is_rewritten_by_these_alone(tmp_path: Path) -> None:
    made = planned(tmp_path)

    def loops(of: Planned, **rules: object) -> list[Loop]:
        program = rewrite(of, TARGET, Options(**rules), Effort()).program  # type: ignore[arg-type]
        return [s for s in program.body if isinstance(s, Loop)]

    full, off = loops(made), loops(made, rewrite="off")
    mixed = loops(made.with_fewer({"S1": "off"}))
    assert full != off
    assert mixed[0].body == full[0].body
    assert len(str(mixed[1].body)) == len(str(off[1].body)) != len(str(full[1].body))
    # Rules are no more than asked for, and loops of which comps disagree keep them all.
    assert loops(made.with_fewer({"S0": "full", "S1": "vector"}), rewrite="off") == off
    assert made.with_fewer({}).fewer == ()
    assert not made.with_fewer({"S0": "off"}).fewer[1:]
