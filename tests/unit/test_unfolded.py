"""Copies of arrays that go on behind their ends: which are made, and that programs stay what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dspgen.driver.pipeline import run_file
from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.load import load_target
from plant_core.interp.func import evaluate
from plant_core.ir.accesses import accesses, linear
from plant_core.ir.c_semantics import NUMPY
from plant_core.ir.func import Buf, Func
from plant_core.transform.boundary_padding import unfolded

HEAD = "const int a[24], const int b[24], const int c[6][10], int y[24], int z[6][10]"
CIRCULAR = "for (int l = 0; l < 24; l++) for (int i = 0; i < 24; i++) "
PLANE = (
    "for (int i = 0; i < 6; i++) for (int j = 0; j < 10; j++) "
    "for (int k = -1; k < 2; k++) for (int l = -1; l < 2; l++) "
)
COPIED: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "remainder": (CIRCULAR + "y[l] += a[i] * b[(i + l) % 24];", {"b_on": (47,)}),
    "mask": (CIRCULAR + "y[l] += a[i] * b[(i + l) & 15];", {"b_on": (47,)}),
    "backwards": (CIRCULAR + "y[l] += a[i] * b[(i - l + 24) % 24];", {"b_on": (47,)}),
    "backwards, as unsigned": (CIRCULAR + "y[l] += a[i] * b[(unsigned)(i - l) % 8u];", {"b_on": (47,)}),
    "choice": (CIRCULAR + "y[l] += a[i] * b[i + l < 24 ? i + l : i + l - 24];", {"b_on": (47,)}),
    "variable": (CIRCULAR + "{ int k = i + l; if (k >= 24) k -= 24; y[l] += a[i] * b[k]; }", {"b_on": (47,)}),
    "steps": (CIRCULAR + "y[l] += a[i] * b[(2 * i + l + 3) % 24];", {"b_on": (70,)}),
    "two places": (CIRCULAR + "y[l] += b[(i + l) % 24] * b[(i + l + 3) % 24];", {"b_on": (50,)}),
    "two ways": (
        CIRCULAR + "y[l] += b[(i + l) % 24] * b[(i + l) % 20];",
        {"b_on": (87,)},
    ),
    "clamped": (
        PLANE + "{ int r = i + k, s = j + l; if (r < 0) r = 0; if (r > 5) r = 5;"
        " z[i][j] += k * c[r][s < 0 ? 0 : s > 9 ? 9 : s]; }",
        {"c_on": (8, 12)},
    ),
    "torus": (PLANE + "z[i][j] += l * c[(i + k + 6) % 6][(j + l + 10) % 10];", {"c_on": (8, 12)}),
    "mirror": (
        PLANE + "{ int s = j + l; if (s < 0) s = -s; if (s > 9) s = 18 - s; z[i][j] += l * c[i][s]; }",
        {"c_on": (6, 12)},
    ),
    "rows": (PLANE + "z[i][j] -= c[(i + k + 6) % 6][j] * l;", {"c_on": (8, 10)}),
    "in time": (
        "for (int t = 0; t < 3; t++) { for (int l = 0; l < 24; l++) for (int i = 0; i < 24; i++)"
        " y[l] += a[i] * z[2][(i + l) % 10]; for (int j = 0; j < 10; j++) z[2][j] = y[j] & 7; }",
        {"z_on": (1, 47)},
    ),
    "few reads": ("for (int i = 0; i < 24; i++) y[i] = b[(i + 5) % 24];", {}),
    "written there": (CIRCULAR + "y[l] += y[(i + l) % 24];", {}),
    "any place": (CIRCULAR + "y[l] += a[i] * b[(i * l) % 24];", {}),
    "places that are data": (CIRCULAR + "y[l] += b[a[i] & 15];", {}),
    "quotient": (CIRCULAR + "y[l] += a[i] * b[(i + l) / 2];", {}),
    "what is affine": (CIRCULAR + "y[l] += a[i] * b[23 - i];", {}),
    "different sums": (
        CIRCULAR + "{ if (i + l < 24) y[l] += a[i] * b[i + l]; else y[l] -= a[i] * b[i + l - 24]; }",
        {},
    ),
}


def read(text: str, folder: Path, head: str = HEAD) -> Func:
    path = folder / "kernel.c"
    path.write_text(f"void f({head}) {{ {text} }}", encoding="utf-8")
    return read_c(str(path))


def check(before: Func, after: Func) -> None:
    source = np.random.default_rng(1)
    values = {
        p.name: source.integers(-9, 9, p.extents).astype(NUMPY[p.dtype]) for p in before.params if isinstance(p, Buf)
    }
    expected, found = evaluate(before, values), evaluate(after, values)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied(name: str, tmp_path: Path) -> None:
    text, copies = COPIED[name]
    func = read(text, tmp_path)
    made = unfolded(func, 1 << 20)
    if made is None:
        assert copies == {}
        return
    assert {b.name: b.shape for b in made.bufs if b not in func.bufs} == copies
    reads = [a for c in made.comps for a in accesses(c.value) if a.buf in copies]
    assert all(linear(index) is not None for a in reads for index in a.indices)
    check(func, made)


def test_cases_become_one_statement(tmp_path: Path) -> None:
    func = read(COPIED["choice"][0], tmp_path)
    made = unfolded(func, 1 << 20)
    assert made is not None
    assert len(func.comps) == 2
    assert sum(c.target.buf == "y" for c in made.comps) == 1


def test_what_lies_between_keeps_cases_apart(tmp_path: Path) -> None:
    text = CIRCULAR + "{ if (i + l < 24) y[l] += b[i + l]; z[0][0] += y[l]; if (i + l >= 24) y[l] += b[i + l - 24]; }"
    assert unfolded(read(text, tmp_path), 1 << 20) is None


def test_there_must_be_room(tmp_path: Path) -> None:
    func = read(COPIED["remainder"][0], tmp_path)
    assert unfolded(func, 47 * 4 - 1) is None
    assert unfolded(func, 47 * 4) is not None


def test_loops_of_unknown_size_stay(tmp_path: Path) -> None:
    text = "for (int l = 0; l < n; l++) for (int i = 0; i < 24; i++) y[l] += a[i] * b[(i + l) % 24];"
    assert unfolded(read(text, tmp_path, f"int n, {HEAD}"), 1 << 20) is None


_SMALL = st.integers(-3, 3)
_SUBSCRIPTS = (
    "({e} + 60) % 12", "({e} + 64) & 7", "{e} < 0 ? 0 : {e} > 11 ? 11 : {e}", "(unsigned)({e}) % 4u",
    "{e} < -11 ? 0 : {e} < 0 ? -({e}) : {e} > 11 ? 0 : {e}", "({e} + 60) % 12 / 1",
    "{e} >= 12 ? 11 : {e} < 0 ? 5 : {e}",
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(_SUBSCRIPTS), _SMALL, _SMALL, _SMALL), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_random_folds(
    tmp_path_factory: pytest.TempPathFactory,
    subscripts: list[tuple[str, int, int, int]],
    variable: bool,
    square: bool,
) -> None:
    indices = [s.format(e=f"({p} * i + {q} * j + {r})") for s, p, q, r in subscripts]
    array, head = ("b[12][12]", "b") if square else ("b[12]", "b")
    where = "".join(f"[{k}]" for k in ("u", "v")) if variable else "".join(f"[{i}]" for i in (indices * 2)[:2])
    where = where if square else where[: where.index("]") + 1]
    given_ = f"int u = {indices[0]}, v = {indices[-1]};" if variable else ""
    loops = "for (int t = 0; t < 60; t++) for (int i = 0; i < 7; i++) for (int j = 0; j < 9; j++)"
    body = f"{loops} {{ {given_} y[i] += a[j] * {head}{where}; }}"
    folder = tmp_path_factory.mktemp("folds")
    try:
        func = read(body, folder, f"const int a[9], const int {array}, int y[7]")
    except SourceError:
        assume(False)  # outside its array
    made = unfolded(func, 1 << 20)
    if made is not None:
        check(func, made)


@pytest.mark.parametrize("name", ["variable", "torus", "in time"])
@pytest.mark.parametrize("data", ["onchip", "ddr"])
def test_code_of_copies(name: str, data: str, tmp_path: Path) -> None:
    read(COPIED[name][0], tmp_path)
    options = Options(data="ddr" if data == "ddr" else "onchip")
    result = run_file(str(tmp_path / "kernel.c"), load_target("ft_m7002"), options)
    assert result.verified, result.details
    assert any(r.kind == "copied" for r in result.remarks)
