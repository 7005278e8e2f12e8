"""Loop trees from schedules: full tiles apart, domains of all shapes, values that bound loops, and running them."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import pytest

from dspgen.frontend.read import read_c
from plant_core.ir.func import (
    Func,
)
from plant_core.ir.loop_tree import For
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.scheduled import AstOption, Scheduled, as_written
from plant_core.scan import scan
from plant_core.support.location import Loc, PlantError
from tests.support.plant_builder import lines_of, nest_of

_LOC = Loc("t.c", 1)


def _read(tmp_path: Path, text: str) -> Func:
    path = tmp_path / "t.c"
    path.write_text(text)
    return read_c(str(path))


# --- tiles --------------------------------------------------------------------------------------------------------

_MATMUL = """void mm(int n, float c[100][100], const float b[100][100]) {
    for (int i = 0; i < %s; i++) for (int j = 0; j < %s; j++) {
        c[i][j] = 0.0f;
        for (int k = 0; k < 8; k++) c[i][j] *= b[k][j];
    } }"""


def _tiled_matmul(tmp_path: Path, extent: str) -> Scheduled:
    full: dict[str, AstOption] = {"ii": "isolate", "ji": "isolate"}
    tile = "i = 32io + ii and j = 32jo + ji and 0 <= ii, ji < 32"
    return Scheduled(
        _read(tmp_path, _MATMUL % (extent, extent)),
        (
            nest_of(
                "S0", "io jo ii ji", f"{{ S0[i, j] -> [0, io, 0, jo, 0, ii, 0, ji, 0] : {tile} }}",
                {}, full,
            ),
            nest_of(
                "S1", "io jo k ii ji", f"{{ S1[i, j, k] -> [0, io, 0, jo, 1, k, 0, ii, 0, ji, 0] : {tile} }}",
                {}, full,
            ),
        ),
    )  # fmt: skip


def test_tiles_that_fit_have_no_partial_ones(tmp_path: Path) -> None:
    assert print_tree(scan(_tiled_matmul(tmp_path, "64"))) == lines_of("""
        for (io = 0; io < 2; io++)
          for (jo = 0; jo < 2; jo++) {
            for (ii = 0; ii < 32; ii++)
              for (ji = 0; ji < 32; ji++)
                c[32 * io + ii][32 * jo + ji] = 0.0f;
            for (k = 0; k < 8; k++)
              for (ii = 0; ii < 32; ii++)
                for (ji = 0; ji < 32; ji++)
                  c[32 * io + ii][32 * jo + ji] = c[32 * io + ii][32 * jo + ji] * b[k][32 * jo + ji];
          }
        """)


def test_full_tiles_are_apart_from_partial_ones(tmp_path: Path) -> None:
    assert print_tree(scan(_tiled_matmul(tmp_path, "100"))) == lines_of("""
        for (io = 0; io < 3; io++) {
          for (jo = 0; jo < 3; jo++) {
            for (ii = 0; ii < 32; ii++)
              for (ji = 0; ji < 32; ji++)
                c[32 * io + ii][32 * jo + ji] = 0.0f;
            for (k = 0; k < 8; k++)
              for (ii = 0; ii < 32; ii++)
                for (ji = 0; ji < 32; ji++)
                  c[32 * io + ii][32 * jo + ji] = c[32 * io + ii][32 * jo + ji] * b[k][32 * jo + ji];
          }
          for (ii = 0; ii < 32; ii++)
            for (ji = 0; ji < 4; ji++)
              c[32 * io + ii][ji + 96] = 0.0f;
          for (k = 0; k < 8; k++)
            for (ii = 0; ii < 32; ii++)
              for (ji = 0; ji < 4; ji++)
                c[32 * io + ii][ji + 96] = c[32 * io + ii][ji + 96] * b[k][ji + 96];
        }
        for (jo = 0; jo < 4; jo++) {
          for (ii = 0; ii < 4; ii++)
            for (ji = 0; ji < min(100 - 32 * jo, 32); ji++)
              c[ii + 96][32 * jo + ji] = 0.0f;
          for (k = 0; k < 8; k++)
            for (ii = 0; ii < 4; ii++)
              for (ji = 0; ji < min(100 - 32 * jo, 32); ji++)
                c[ii + 96][32 * jo + ji] = c[ii + 96][32 * jo + ji] * b[k][32 * jo + ji];
        }
        """)


def test_full_tiles_of_a_symbolic_size(tmp_path: Path) -> None:
    text = print_tree(scan(_tiled_matmul(tmp_path, "n")))
    assert text.startswith(
        lines_of("""
        for (io = 0; io < n // 32; io++) {
          for (jo = 0; jo < n / 32; jo++) {
            for (ii = 0; ii < 32; ii++)
              for (ji = 0; ji < 32; ji++)
                c[32 * io + ii][32 * jo + ji] = 0.0f;
            for (k = 0; k < 8; k++)
              for (ii = 0; ii < 32; ii++)
                for (ji = 0; ji < 32; ji++)
                  c[32 * io + ii][32 * jo + ji] = c[32 * io + ii][32 * jo + ji] * b[k][32 * jo + ji];
          }
        """)
    )
    whole = print_tree(scan(_tiled_matmul(tmp_path, "n"), context=isl.Set("[n] -> { : n > 0 and n mod 32 = 0 }")))
    assert whole.startswith("for (io = 0; io < n / 32; io++)\n") and whole.count("for") == 7


def test_full_tiles_of_a_triangle(tmp_path: Path) -> None:
    func = _read(
        tmp_path,
        "void f(float a[64][64]) { for (int i = 0; i < 64; i++) for (int j = 0; j <= i; j++) a[i][j] = 1.0f; }",
    )
    relation = "{ S0[i, j] -> [0, io, 0, jo, 0, ii, 0, ji, 0] : i = 16io + ii and j = 16jo + ji and 0 <= ii, ji < 16 }"
    nest = nest_of("S0", "io jo ii ji", relation, {}, {"ii": "isolate", "ji": "isolate"})
    assert print_tree(scan(Scheduled(func, (nest,)))) == lines_of("""
        for (ii = 0; ii < 16; ii++)
          for (ji = 0; ji < ii + 1; ji++)
            a[ii][ji] = 1.0f;
        for (io = 1; io < 4; io++) {
          for (jo = 0; jo < io; jo++)
            for (ii = 0; ii < 16; ii++)
              for (ji = 0; ji < 16; ji++)
                a[16 * io + ii][16 * jo + ji] = 1.0f;
          for (ii = 0; ii < 16; ii++)
            for (ji = 0; ji < ii + 1; ji++)
              a[16 * io + ii][16 * io + ji] = 1.0f;
        }
        """)  # fmt: skip


def test_tiles_in_tiles_that_end_in_the_middle(tmp_path: Path) -> None:
    func = _read(
        tmp_path,
        "void f(float a[110]) { for (int i = 0; i < 110; i++) for (int k = 0; k < 8; k++) a[i] *= 2.0f; }",
    )
    place = "i = 24io + 6im + ii and 0 <= 6im + ii < 24 and 0 <= ii < 6"
    nest = nest_of(
        "S0", "io im k ii", f"{{ S0[i, k] -> [0, io, 0, im, 0, k, 0, ii, 0] : {place} }}", {}, {"ii": "isolate"}
    )
    assert print_tree(scan(Scheduled(func, (nest,)))) == lines_of("""
        for (io = 0; io < 5; io++) {
          for (im = 0; im < min(18 - 4 * io, 4); im++)
            for (k = 0; k < 8; k++)
              for (ii = 0; ii < 6; ii++)
                a[24 * io + 6 * im + ii] = a[24 * io + 6 * im + ii] * 2.0f;
          if (io == 4)
            for (k = 0; k < 8; k++)
              for (ii = 0; ii < 2; ii++)
                a[ii + 108] = a[ii + 108] * 2.0f;
        }
        """)


def test_full_tiles_of_loops_that_count_on(tmp_path: Path) -> None:
    """Loops inside tiles may keep the values of the iterators that they had before."""
    func = _read(tmp_path, "void f(int n, float a[n]) { for (int i = 0; i < n; i++) a[i] = 1.0f; }")
    nest = nest_of("S0", "io i", "{ S0[i] -> [0, io, 0, i, 0] : 32io <= i < 32io + 32 }", {}, {"i": "isolate"})
    context = isl.Set("[n] -> { : n > 0 }")
    assert print_tree(scan(Scheduled(func, (nest,)), context=context)).startswith(
        lines_of("""
        for (io = 0; io < n / 32; io++)
          for (i = 32 * io; i < 32 * io + 32; i++)
            a[i] = 1.0f;
        """)
    )


def test_the_rest_has_the_subscripts_of_the_tiles(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(int n, float a[n]) { for (int i = 0; i < n; i++) a[i] = 1.0f; }")
    nest = nest_of(
        "S0", "io ii", "{ S0[i] -> [0, io, 0, ii, 0] : i = 16io + ii and 0 <= ii < 16 }", {}, {"ii": "isolate"}
    )
    assert print_tree(scan(Scheduled(func, (nest,)), context=isl.Set("[n] -> { : n > 0 }"))) == lines_of("""
        for (io = 0; io < n / 16; io++)
          for (ii = 0; ii < 16; ii++)
            a[16 * io + ii] = 1.0f;
        for (ii = 0; ii < n % 16; ii++)
          a[16 * ((n - 1) / 16) + ii] = 1.0f;
        """)


def test_subscripts_that_wrap_stay_as_written(tmp_path: Path) -> None:
    func = _read(
        tmp_path,
        "void f(float a[18], const float b[70]) { for (int o = 0; o < 4; o++) for (int i = 16 * o; i < 16 * o + 18 && "
        "i < 70; i++) a[i % 18] = b[i]; }",
    )
    text = print_tree(scan(as_written(func)))
    assert text.endswith("a[i % 18] = b[i];\n")


def test_parallel_loops_stay_whole(tmp_path: Path) -> None:
    """Partial tiles of their own would run after the full ones, on one thread."""
    func = _read(tmp_path, "void f(int n, float a[64]) { for (int i = 0; i < n; i++) a[i] = 1.0f; }")
    relation = "{ S0[i] -> [0, o, 0, u, 0] : i = 8o + u and 0 <= u < 8 }"
    nest = nest_of("S0", "o u", relation, {"o": "parallel", "u": "vectorize"}, {"u": "isolate"})
    assert print_tree(scan(Scheduled(func, (nest,)))) == lines_of("""
        parallel for (o = 0; o < (n - 1) // 8 + 1; o++) {
          if (n >= 8 * o + 8)
            vectorize for (u = 0; u < 8; u++)
              a[8 * o + u] = 1.0f;
          if (n < 8 * o + 8)
            vectorize for (u = 0; u < n - 8 * o; u++)
              a[8 * o + u] = 1.0f;
        }
        """)


# --- shapes -------------------------------------------------------------------------------------------------------


def test_strides_need_no_division(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(int n, float a[64]) { for (int i = 1; i < n; i += 2) a[(i - 1) / 2] = 1.0f; }")
    assert print_tree(scan(as_written(func), context=isl.Set("[n] -> { : n > 1 }"))) == lines_of("""
        for (i = 1; i < n; i += 2)
          a[(i - 1) / 2] = 1.0f;
        """)
    halves = nest_of("S0", "c", "{ S0[i] -> [0, c, 0] : i = 2c + 1 }")
    assert "  a[c] = 1.0f;" in print_tree(scan(Scheduled(func, (halves,))))


def test_an_overlapped_instance_runs_at_each_of_its_times(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(float a[32]) { for (int i = 0; i < 12; i++) a[i] = 1.0f; }")
    nest = nest_of("S0", "o i", "{ S0[i] -> [0, o, 0, u, 0] : i = 4o + u and 0 <= u < 6 and 0 <= o < 3 }")
    assert print_tree(scan(Scheduled(func, (nest,)))) == lines_of("""
        for (o = 0; o < 3; o++)
          for (i = 0; i < min(12 - 4 * o, 6); i++)
            a[4 * o + i] = 1.0f;
        """)


_TWO = """void f(float a[40], float b[40]) {
    for (int i = 0; i < 20; i++) a[i] = 1.0f;
    for (int j = 5; j < 30; j++) b[j] = 2.0f; }"""


def test_fused_statements_of_different_domains(tmp_path: Path) -> None:
    func = _read(tmp_path, _TWO)
    first, second = nest_of("S0", "i", "{ S0[i] -> [0, i, 0] }"), nest_of("S1", "j", "{ S1[j] -> [0, j, 1] }")
    assert print_tree(scan(Scheduled(func, (first, second)))) == lines_of("""
        for (i = 0; i < 30; i++) {
          if (i <= 19)
            a[i] = 1.0f;
          if (i >= 5)
            b[i] = 2.0f;
        }
        """)
    apart = nest_of("S1", "j", "{ S1[j] -> [0, j, 1] }", {}, {"j": "separate"})
    assert print_tree(scan(Scheduled(func, (first, apart)))) == lines_of("""
        for (i = 0; i < 5; i++)
          a[i] = 1.0f;
        for (i = 5; i < 20; i++) {
          a[i] = 1.0f;
          b[i] = 2.0f;
        }
        for (j = 20; j < 30; j++)
          b[j] = 2.0f;
        """)


def test_positions_that_change_separate_a_loop(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(float a[40]) { for (int i = 0; i < 39; i++) a[i] = 1.0f; }")
    relation = "{ S0[i] -> [c, o, 0, u, 0] : i = 4o + u and 0 <= u < 4 and ((c = 0 and o < 9) or (c = 1 and o >= 9)) }"
    assert print_tree(scan(Scheduled(func, (nest_of("S0", "o u", relation),)))) == lines_of("""
        for (o = 0; o < 9; o++)
          for (u = 0; u < 4; u++)
            a[4 * o + u] = 1.0f;
        for (u = 0; u < 3; u++)
          a[u + 36] = 1.0f;
        """)


def test_unrolled_loops_and_names_that_clash(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(float a[40]) { for (int i = 0; i < 8; i++) a[i] = 1.0f; }")
    relation = "{ S0[i] -> [0, o, 0, u, 0] : i = 2o + u and 0 <= u < 2 }"
    assert print_tree(scan(Scheduled(func, (nest_of("S0", "a a", relation, {}, {}),)))) == lines_of("""
        for (a_1 = 0; a_1 < 4; a_1++)
          for (a_2 = 0; a_2 < 2; a_2++)
            a[2 * a_1 + a_2] = 1.0f;
        """)
    assert print_tree(scan(Scheduled(func, (nest_of("S0", "o u", relation, {}, {"u": "unroll"}),)))) == lines_of("""
        for (o = 0; o < 4; o++) {
          a[2 * o] = 1.0f;
          a[2 * o + 1] = 1.0f;
        }
        """)


def test_reductions_are_marked_on_tagged_loops(tmp_path: Path) -> None:
    func = _read(tmp_path, "void f(int a[40], int s[1]) { for (int i = 0; i < 40; i++) s[0] += a[i]; }")
    tree = scan(Scheduled(func, (nest_of("S0", "i", "{ S0[i] -> [0, i, 0] }", {"i": "vectorize"}),)))
    assert isinstance(tree, For) and tree.reduction
    assert print_tree(tree) == "vectorize reduction for (i = 0; i < 40; i++)\n  s[0] = s[0] + a[i];\n"


def test_what_a_schedule_cant_say(tmp_path: Path) -> None:
    func = _read(tmp_path, _TWO)
    other = nest_of("S1", "j", "{ S1[j] -> [0, j, 1] }", {"j": "vectorize"}, {"j": "separate"})
    with pytest.raises(PlantError, match="S0 and S1 share a loop, and tag it 'parallel' and 'vectorize'"):
        scan(Scheduled(func, (nest_of("S0", "i", "{ S0[i] -> [0, i, 0] }", {"i": "parallel"}), other)))
    with pytest.raises(PlantError, match="S0 and S1 share a loop, and want it 'atomic' and 'separate'"):
        scan(Scheduled(func, (nest_of("S0", "i", "{ S0[i] -> [0, i, 0] }", {}, {"i": "atomic"}), other)))
    with pytest.raises(PlantError, match="two instances of S0 have one time"):
        scan(Scheduled(func, (nest_of("S0", "i", "{ S0[i] -> [0, o, 0] : o = floor(i / 2) }"), other)))
    with pytest.raises(PlantError, match="has 2 dimensions for 1 loops"):
        scan(Scheduled(func, (nest_of("S0", "i", "{ S0[i] -> [0, i] }"), other)))
    symbolic = _read(tmp_path, "void f(int n, float a[40]) { for (int i = 0; i < n; i++) a[i] = 1.0f; }")
    with pytest.raises(PlantError, match="a loop of S0 can't be unrolled"):
        scan(Scheduled(symbolic, (nest_of("S0", "i", "{ S0[i] -> [0, i, 0] }", {}, {"i": "unroll"}),)))
    with pytest.raises(PlantError, match="nothing fulfils"):
        scan(as_written(symbolic), context=isl.Set("[n] -> { : n > 0 and n < 0 }"))
