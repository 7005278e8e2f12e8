"""Subscripts that begin at the lesser of two values: names for these, what is known of them, and what runs."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import numpy as np

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.congruence import Congruence, Congruences
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.loops.simplify import simplify
from plant_core.analysis.symbolic_offsets import with_names, with_starts
from plant_core.ir.accesses import integer
from plant_core.ir.func import Binary, Comp, Expr, Iter, Load, Param
from plant_core.ir.loop_tree import For, Leaf, Tile
from plant_core.support.location import Loc

LOC = Loc("f.c", 1, 1)


def start(iterator: str) -> Expr:
    return Binary("min", Binary("mul", integer(8), Iter(iterator), "i32"), Param("last", "i32"), "i32")


def test_a_start_is_apart_from_what_is_affine() -> None:
    rest, starts = with_starts(Binary("sub", Iter("i"), start("g"), "i32"))
    assert starts == {start("g"): -1}
    assert rest == Binary("sub", Iter("i"), integer(0), "i32")


def test_a_start_gets_a_name_in_the_loop_that_it_changes_with() -> None:
    target = Load("y", (Binary("add", start("a"), Iter("b"), "i32"),), "i32")
    domain = isl.Set("{ S[a, b] }")
    comp = Comp("S", ("a", "b"), domain, isl.Map("{ S[a, b] -> [0] }"), target, Load("x", target.indices, "i32"), LOC)
    leaf = Leaf(comp, (Iter("g"), Iter("k")), Tile((1, 1)))
    tree = For("g", integer(0), Param("n", "i32"), 1, For("k", integer(0), integer(8), 1, leaf))
    made, found = with_names(tree, lambda name: name)
    assert found == {(): {start("g"): "start"}}
    assert isinstance(made, For) and isinstance(made.body, For) and isinstance(made.body.body, Leaf)
    named = Binary("add", Param("start", "i32"), Iter("b"), "i32")
    assert made.body.body.comp.target.indices == (named,)
    assert made.body.body.comp.value == Load("x", (named,), "i32")
    # Over the loop's own iterations at once, there is no one value.
    wide = For("g", integer(0), Param("n", "i32"), 4, Leaf(comp, (Iter("g"), integer(0)), Tile((4, 1))))
    assert with_names(wide, lambda name: name) == (wide, {})


def test_what_is_known_of_the_lesser_of_two() -> None:
    text = """program f(y, n)
{
  array y i32 100
  scalar n i32
  let last = (add.i32 (shl.i32 n:i32 (const.i32 1)) (const.i32 -8))
  loop g start (const.i32 0) trip n:i32 step 1 min 0 {
    loop s start (min.i32 (shl.i32 g:i32 (const.i32 3)) last:i32) trip (const.i32 1) step 1 min 1 max 1 {
      store.i32 y [s] 1 = (const.i32 1)
    }
  }
}
"""
    names = Congruences(parse_program(text)).names
    assert names["last"] == names["s"] == Congruence(0, 2)


def test_neighbours_under_one_condition_are_one_if() -> None:
    asked = "\n".join(
        f"  if (gt.i32 n:i32 (const.i32 {limit})) {{\n    store.i32 y [{k}] 1 = (const.i32 1)\n  }}"
        for k, limit in enumerate((1, 1, 2))
    )
    text = f"program f(y, n)\n{{\n  array y i32 100\n  scalar n i32\n{asked}\n}}\n"
    assert len(simplify(parse_program(text)).body) == 2


def test_groups_run_to_the_end_of_any_size(tmp_path: Path) -> None:
    """The last group of rows and of columns begins where it ends with the loop, at even and at odd elements."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int m, const float x[40][70], float y[40][70]) {
          for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) y[i][j] = x[i][j - 1] + x[i][j]; }""",
        encoding="utf-8",
    )
    target, options = load_target("ft_m7002"), Options(data="onchip", tiler="model")  # it finds the best at once
    compiled = compile_file(str(path), target, options)
    draw = np.random.default_rng(0)
    for n, m in ((13, 40), (21, 36), (19, 7)):
        given = {"n": n, "m": m, "x": draw.random((40, 70), np.float32), "y": np.zeros((40, 70), np.float32)}
        assert run_compiled(compiled, str(path), target, options, inputs=given).verified, (n, m)
