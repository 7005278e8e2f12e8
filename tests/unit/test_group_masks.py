"""Masks that are alike in the lanes that one predicate governs: the same values, and code on whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.lane_masks import group_masks
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.program import Load, Op, Program
from dspgen.vecdsl.ir.terms import terms_in
from dspgen.vecdsl.ir.verify import verify

LANES = 8
BEFORE = "(lt.i32.v (iota.i32.v) (bcast.i32.v {place}))"
SIGN = "(shr.i32.v (sub.i32.v (iota.i32.v) (bcast.i32.v {place})) (const.i32.v 31))"
FROM = (
    "(add.i32.v (shr.i32.v (add.i32.v (iota.i32.v) (bcast.i32.v (neg.i32 {place}))) (const.i32.v 31)) (const.i32.v 1))"
)


def program_of(mask: str, place: str, step: int, elem: str = "f32") -> Program:
    text = f"""
    program f(A, B)
    {{
      array A {elem} 64 const
      array B {elem} 128
      loop i start (const.i32 0) trip (const.i32 4) step {step} min 4 max 4 {{
        let x = (ld.{elem}.v A [i] 1)
        let m = (select.{elem}.v {mask.format(place=place)} (add.{elem}.v x:{elem}.v x:{elem}.v) (ld.{elem}.v A [32] 1))
        store.{elem} B [8*i] 1 = m:{elem}.v
      }}
    }}"""
    return verify(parse_program(text))


def joined(group: int) -> Callable[[tuple[int, ...]], bool]:
    return lambda pattern: group > 1


@settings(max_examples=60)
@given(
    mask=st.sampled_from([BEFORE, SIGN, FROM]),
    group=st.sampled_from([2, 4]),
    step=st.sampled_from([1, 2, 4]),
    factor=st.sampled_from([-2, -1, 0, 1, 2]),
    constant=st.integers(-9, 15),
)
def test_the_same_values(mask: str, group: int, step: int, factor: int, constant: int) -> None:
    place = f"(add.i32 (mul.i32 i:i32 (const.i32 {factor})) (const.i32 {constant}))"
    program = program_of(mask, place, step)
    changed = verify(group_masks(program, LANES, group, joined(group)))
    inputs = {"A": np.arange(1, 65, dtype=np.float32), "B": np.zeros(128, np.float32)}
    before, after = (evaluate(p, LANES, inputs, slack=4 * LANES) for p in (program, changed))
    np.testing.assert_array_equal(after["B"], before["B"])
    known = step * factor % group == 0 and abs(constant) < LANES and abs(factor * step) <= 2
    if known:
        conditions = [t.args[0] for t in terms_in(changed.body) if isinstance(t, Op) and t.name == "select"]
        assert all(isinstance(c, Op) and c.name == "alike" and isinstance(c.args[0], Load) for c in conditions)


@pytest.mark.parametrize(
    ("mask", "place", "step", "elem", "group"),
    [
        (BEFORE, "i:i32", 1, "f32", 2),  # the place isn't known modulo the group
        (BEFORE, "(mul.i32 i:i32 (const.i32 64))", 2, "f32", 2),  # far away
        (BEFORE, "(mul.i32 i:i32 (const.i32 2))", 2, "f64", 2),  # other lanes than the mask's
        (BEFORE, "i:i32", 2, "f32", 1),  # a predicate for each lane
    ],
)
def test_masks_that_stay(mask: str, place: str, step: int, elem: str, group: int) -> None:
    program = program_of(mask, place, step, elem)
    assert group_masks(program, LANES, group, joined(group)) == program


def test_without_a_shuffle_cut_groups_stay() -> None:
    whole, cut = (program_of(BEFORE, f"(add.i32 i:i32 (const.i32 {c}))", 2) for c in (2, 3))
    assert group_masks(whole, LANES, 2, lambda pattern: False) != whole
    changed = group_masks(cut, LANES, 2, lambda pattern: False)
    assert not any(isinstance(t, Op) and t.name == "alike" for t in terms_in(changed.body))


TRIANGLE = """void f(const float x[160], const float y[256], float r[128])
{
  for (int i = 0; i < 128; i++) {
    r[i] = 0.0f;
    for (int k = 0; k < 130 - i; k++)
      r[i] += x[k] * y[k + i];
  }
}
"""


def test_numbers_beyond_a_row_stay_out_of_it(tmp_path: Path) -> None:
    """Infinities and the like are in those sums only that have them, wherever rows end in groups of lanes."""
    path = tmp_path / "f.c"
    path.write_text(TRIANGLE, encoding="utf-8")
    random = np.random.default_rng(1)
    x, y = (random.uniform(-1, 1, n).astype(np.float32) for n in (160, 256))
    x[77], y[131:] = np.inf, np.nan
    result = run_file(str(path), load_target("ft_mt3000"), Options(), inputs={"x": x, "y": y})
    rows = [np.dot(x[: 130 - i], y[i:130]) for i in range(128)]
    assert any("in strips" in tile for tile in result.tiles) and any("32 lanes" in r.message for r in result.remarks)
    np.testing.assert_allclose(result.outputs["r"], rows, rtol=1e-4, atol=1e-4)
