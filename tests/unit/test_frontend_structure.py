"""The shape of what is read: domains, schedules, conversions, places."""

from __future__ import annotations

from pathlib import Path

import islpy as isl

from dspgen.frontend.read import read_c
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr, print_func


def read(folder: Path, text: str) -> Func:
    path = folder / "kernel.c"
    path.write_text(text)
    return read_c(str(path))


def statements(func: Func) -> list[str]:
    return [f"{print_expr(c.target)} = {print_expr(c.value)}" for c in func.comps]


def test_domain_schedule_and_place(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(const float x[8], float y[8]) {\n  for (int i = 7; i >= 1; i -= 2) {\n"
        "    y[i] = 0;\n    for (int j = 0; j < i; j++)\n      y[i] += x[j];\n  }\n}\n",
    )
    first, second = func.comps
    assert (first.name, second.name, second.iters) == ("S0", "S1", ("i", "j"))
    assert first.domain.is_equal(isl.Set("{ S0[i] : 1 <= i <= 7 and i mod 2 = 1 }"))
    assert second.domain.is_equal(isl.Set("{ S1[i, j] : 1 <= i <= 7 and i mod 2 = 1 and 0 <= j < i }"))
    assert first.schedule.is_equal(isl.Map("{ S0[i] -> [0, -i, 0, 0, 0] }"))
    assert second.schedule.is_equal(isl.Map("{ S1[i, j] -> [0, -i, 1, j, 0] }"))
    assert (second.loc.line, second.loc.column) == (5, 7)
    assert func.params == tuple(b for b in func.bufs if b.kind == "param")


def test_conversions_are_explicit(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(float x[4], signed char c[4], unsigned u[4]) {\n"
        "  x[0] = x[1] * 0.5; c[0] += c[1]; u[0] = u[1] + c[2]; x[2] = x[3] * 0.5f; u[2] = -1;\n}\n",
    )
    assert statements(func) == [
        "x[0] = (f32)((f64)x[1] * 0.5)",
        "c[0] = (i8)((i32)c[0] + (i32)c[1])",
        "u[0] = u[1] + (u32)c[2]",
        "x[2] = x[3] * 0.5f",
        "u[2] = 4294967295u32",
    ]


def test_equal_names_in_different_loops(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(float x[4]) { for (int i = 0; i < 4; i++) x[i] = 1;\n"
        "  for (int i = 0; i < 2; i++) for (int i = 0; i < 3; i++) x[i] += 1; }\n",
    )
    assert [c.iters for c in func.comps] == [("i",), ("i", "i_1")]


def test_names_that_the_set_library_keeps(tmp_path: Path) -> None:
    func = read(tmp_path, "void k(float x[4]) { for (int mod = 0; mod < 4; mod++) x[mod] = mod; }\n")
    assert func.comps[0].iters == ("mod_1",)


def test_initialisers_become_statements(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(float y[9]) { float t[3][3] = {{1}, {2, 2}}, s = 4;\n"
        "  for (int i = 0; i < 9; i++) y[i] = t[i / 3][i % 3] * s; }\n",
    )
    assert [c.target.buf for c in func.comps] == ["t", "t", "t", "s", "y"]
    zeros = func.comps[0].domain
    assert zeros.count_val().to_python() == 6


def test_unread_variables_are_dropped(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(float y[16]) { int n = 4; float unused = 3; float t[5];\n"
        "  for (int i = 0; i < n; i++) { int row = 4 * i; for (int j = 0; j < n; j++) y[row + j] = 1; } }\n",
    )
    assert statements(func) == ["y[4 * i + j] = 1.0f"]
    assert [b.name for b in func.bufs] == ["y"]


def test_condition_on_data_becomes_a_choice(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(const float x[4], float y[4]) { for (int i = 0; i < 4; i++) {\n"
        "  if (x[i] > 0) y[i] = x[i]; else y[i] = 0;\n  if (x[i] < 1 && i > 1) y[i] += 1; } }\n",
    )
    assert statements(func) == [
        "y[i] = x[i] > 0.0f ? x[i] : 0.0f",
        "y[i] = x[i] < 1.0f ? y[i] + 1.0f : y[i]",
    ]
    assert func.comps[1].domain.is_equal(isl.Set("{ S1[i] : 2 <= i <= 3 }"))


def test_only_used_parameters_are_in_the_sets(tmp_path: Path) -> None:
    func = read(
        tmp_path,
        "void k(float x[4], int n, unsigned m, int v) { for (int i = 0; i < n; i++) x[i] = v + m; }\n",
    )
    space = func.comps[0].domain.get_space()
    names = [space.get_dim_name(isl.dim_type.param, k) for k in range(space.dim(isl.dim_type.param))]
    assert names == ["n"]
    assert [p.name for p in func.params if not isinstance(p, Buf)] == ["n", "m", "v"]


def test_printed_text(tmp_path: Path) -> None:
    func = read(
        tmp_path, "void k(const float x[2], float y[2]) {\n  for (int i = 0; i < 2; i++) y[1 - i] = -x[i];\n}\n"
    )
    lines = [line.strip() for line in print_func(func).splitlines()]
    assert lines[0].startswith("func k(const f32 x[2]")
    for line in ("domain   { S0[i] : 0 <= i <= 1 }", "schedule { S0[i] -> [0, i, 0] }", "y[-i + 1] = -x[i]"):
        assert line in lines


def test_nothing_to_do(tmp_path: Path) -> None:
    assert read(tmp_path, "void k(float x[4]) { for (int i = 4; i < 4; i++) x[i] = 1; }\n").comps == ()
