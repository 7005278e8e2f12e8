"""Array sizes that depend on integer parameters, and the library's functions, against the host's compiler."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.oracle import random_inputs, run_c
from plant_core.interp.func import evaluate
from plant_core.ir import c_semantics as values
from plant_core.ir.c_semantics import LIBRARY, shape_of
from plant_core.ir.func import Buf
from plant_core.support.location import PlantError
from tests.generators.nests import random_program

PROGRAMS: dict[str, str] = {
    "rows and columns": """
        void kernel(int n, int m, const double A[n][m], double B[restrict m][n]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) B[j][i] = 2 * A[i][j];
        }""",
    "sums of parameters": """
        void kernel(int n, int m, const float x[n + m - 1], const float h[m], float y[static n]) {
          for (int i = 0; i < n; i++) { y[i] = 0; for (int j = 0; j < m; j++) y[i] += x[i + j] * h[m - 1 - j]; }
        }""",
    "halves and products": """
        void kernel(int n, int m, float x[n * m], float y[(n + 1) / 2][2 * m]) {
          for (int i = 0; i < n / 2; i++) for (int j = 0; j < m; j++) y[i][2 * j + 1] += x[j];
        }""",
    "wide and unsigned": """
        #include <stddef.h>
        void kernel(size_t n, unsigned m, float x[n][m]) {
          for (size_t i = 0; i < n; i++) for (unsigned j = 0; j < m; j++) x[i][j] = -x[i][j];
        }""",
    "scratch arrays": """
        void kernel(int n, int m, double x[n], double y[n]) {
          const int k = n + m;
          double t[k], u[n][2];
          for (int i = 0; i < k; i++) t[i] = i < n ? x[i] : 1;
          for (int i = 0; i < n; i++) { u[i][0] = t[i + 1]; u[i][1] = t[k - 1 - i]; }
          for (int i = 0; i < n; i++) y[i] = u[i][0] + u[n - 1 - i][1];
        }""",
    "nested typedefs": """
        typedef short sample;
        typedef sample pair[2];
        void kernel(int n, int m, pair x[n], const sample y[m][n]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < 2; j++) if (m > j) x[i][j] += y[j][n - i - 1];
        }""",
}


@pytest.mark.parametrize("sizes", [(1, 1), (4, 3), (5, 8)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_that_of_c(tmp_path: Path, name: str, sizes: tuple[int, int]) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(PROGRAMS[name])
    func = read_c(str(path))
    integers = dict(zip(("n", "m"), sizes, strict=True))
    generator = np.random.default_rng(3)
    inputs: dict[str, Any] = dict(integers)
    for param in func.params:
        if isinstance(param, Buf):
            shape = shape_of(param, integers)
            inputs[param.name] = np.round(generator.uniform(-50, 50, shape), 0 if param.dtype == "i16" else 3)
    wanted = run_c(str(path), func, inputs)
    found = evaluate(func, inputs)
    for array in wanted:
        np.testing.assert_array_equal(found[array], wanted[array])


def test_fixed_parameters_give_numbers(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text("void k(int n, int m, float x[n + 2][m]) { for (int i = 0; i < n; i++) x[i + 2][0] = 1; }\n")
    assert read_c(str(path), defines=[("n", "3"), ("m", "4")]).buf("x").extents == (5, 4)
    partly = read_c(str(path), defines=[("m", "4")]).buf("x")
    assert partly.shape[1] == 4
    with pytest.raises(PlantError) as caught:
        _ = partly.extents
    assert caught.value.code == "DG205"


UNDECIDED = "void k(int n, int m, float x[n], float y[10]) { for (int i = 0; i < m; i++) { x[i] = 1; y[i] = 2; } }\n"


def test_undecided_bounds_are_checked_when_run(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(UNDECIDED)
    func = read_c(str(path))
    inputs: dict[str, Any] = {"n": 4, "m": 4, "x": np.zeros(4), "y": np.zeros(10)}
    assert evaluate(func, inputs)["x"].tolist() == [1] * 4
    with pytest.raises(SourceError) as caught:
        run_c(str(path), func, {**inputs, "m": 5})
    assert "x[4]" in caught.value.render()
    with pytest.raises(PlantError):
        run_c(str(path), func, {**inputs, "n": -1})


def test_symbolic_extents_are_checked_when_run(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text("void k(int n, float x[n]) { for (int i = 0; i < 4; i++) x[i] = 1; }\n")
    func = read_c(str(path))
    assert evaluate(func, {"n": 5, "x": np.zeros(5)})["x"].tolist() == [1] * 4 + [0]
    with pytest.raises(PlantError, match="'x'"):
        evaluate(func, {"n": 3, "x": np.zeros(3)})
    with pytest.raises(PlantError, match="shape"):
        evaluate(func, {"n": 6, "x": np.zeros(5)})


# The text after `float x[n][m]) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)`, and the message or "".
BOUNDS = [
    ("x[i][j] = 1;", ""),
    ("x[i][j + 1] = 1;", "x[0][1] when i = 0, j = 0, n = 1, m = 1"),
    ("x[i + 1][j] = 1;", "x[1][0] when"),
    ("if (i + 1 < n) x[i + 1][j] = 1;", ""),
    ("x[j][i] = 1;", ""),
    ("if (j > 0) x[i][j] = x[i][j - 1];", ""),
    ("x[i][j] = j > 0 ? x[i][j - 1] : 0;", ""),
    ("x[i][j] = x[i][j - 1];", "x[0][-1] when"),
    ("x[i][m] = 1;", "x[0][1] when"),
    ("x[n - 1 - i][m - 1 - j] = 1;", ""),
    ("x[2 * i][j] = 1;", ""),
]


@pytest.mark.parametrize(("text", "part"), BOUNDS)
def test_what_is_certainly_outside_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "kernel.c"
    head = "void k(int n, int m, float x[n][m]) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) "
    path.write_text(f"{head}{text} }}\n")
    if not part:
        read_c(str(path))
        return
    with pytest.raises(SourceError) as caught:
        read_c(str(path))
    assert [p.code for p in caught.value.problems] == ["DG012"] and part in caught.value.render()


def test_library_functions_are_those_of_c(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    lines, names = [], sorted(LIBRARY)
    for row, name in enumerate(names):
        arguments = ", ".join(["x[i]", "z[i]", "x[11 - i]"][: LIBRARY[name]])
        lines.append(f"d[{row}][i] = {name}({arguments}); s[{row}][i] = {name}f({arguments});")
    path.write_text(
        f"#include <math.h>\nvoid k(const double x[12], const double z[12], double d[{len(names)}][12], "
        f"float s[{len(names)}][12], long r[12]) {{\n  for (int i = 0; i < 12; i++) {{\n"
        + "\n".join(lines)
        + "\n r[i] = lround(x[i]) + lrintf(z[i]);\n}\n}\n"
    )
    func = read_c(str(path))
    x = np.array([0.0, 0.25, 0.5, 0.75, 0.49999999999999994, 1.0, 1.5, 2.5, 3.7, 0.001, 4503599627370497.0, np.nan])
    z = np.array([2.0, 0.5, -1.0, 3.0, 0.1, 1.0, -2.5, 0.0, 1.2, 7.0, 0.5, 1.0])
    given: dict[str, Any] = {
        "x": x,
        "z": z,
        "d": np.zeros((len(names), 12)),
        "s": np.zeros((len(names), 12)),
        "r": np.zeros(12),
    }
    wanted, found = run_c(str(path), func, given), evaluate(func, given)
    for row, name in enumerate(names):
        np.testing.assert_allclose(found["d"][row], wanted["d"][row], rtol=1e-14, err_msg=name)
        np.testing.assert_allclose(found["s"][row], wanted["s"][row], rtol=3e-7, err_msg=name)
    np.testing.assert_array_equal(found["r"][:10], wanted["r"][:10])


def test_library_function_without_a_meaning() -> None:
    with pytest.raises(PlantError, match="'gamma'"):
        values.call("gamma", "f64", 1.0)
    with pytest.raises(PlantError, match="2 arguments"):
        values.call("exp", "f64", 1.0, 2.0)


def test_fused_multiply_add_rounds_once(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(
        "#include <math.h>\nvoid k(const float a[500], const float b[500], const float c[500], float r[500],\n"
        "       const double d[500], double e[500]) {\n  for (int i = 0; i < 500; i++) {\n"
        "    r[i] = fmaf(a[i], b[i], c[i]);\n    e[i] = fma(d[i], a[i], -d[499 - i]);\n  }\n}\n"
    )
    func = read_c(str(path))
    generator = np.random.default_rng(4)
    a, b = (generator.normal(size=500).astype(np.float32) for _ in range(2))
    c = np.where(generator.random(500) < 0.5, -(a * b), generator.normal(size=500)).astype(np.float32)
    c[0], b[1], a[2], c[3] = np.inf, np.nan, 0, 1e-40
    given: dict[str, Any] = {"a": a, "b": b, "c": c, "r": np.zeros(500), "d": generator.normal(size=500)}
    given["e"] = np.zeros(500)
    wanted, found = run_c(str(path), func, given), evaluate(func, given)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(
        "#include <math.h>\nvoid k(int n, const double x[n], double r[3]) {\n"
        "  r[0] = -INFINITY; r[1] = NAN; r[2] = HUGE_VAL;\n"
        "  for (int i = 0; i < n; i++) r[0] = x[i] > r[0] ? x[i] : r[0];\n}\n"
    )
    func = read_c(str(path))
    given: dict[str, Any] = {"n": 4, "x": np.array([-5.0, -3, -8, -9]), "r": np.zeros(3)}
    np.testing.assert_array_equal(evaluate(func, given)["r"], [-3, np.nan, np.inf])
    np.testing.assert_array_equal(run_c(str(path), func, given)["r"], [-3, np.nan, np.inf])


def with_symbolic_extents(text: str, rng: random.Random) -> tuple[str, dict[str, int]]:
    """The program with parameters in place of most extents of its array parameters, and their values."""
    before, rest = text.split("void kernel(", 1)
    params, body = rest.split(")\n{", 1)
    sizes: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        if rng.random() < 0.3:
            return match.group()
        name, offset = f"d{len(sizes)}", rng.choice([0, 0, 1, -1])
        sizes[name] = int(match.group(1)) - offset
        return f"[{name} + {offset}]" if offset else f"[{name}]"

    params = re.sub(r"\[(\d+)\]", renamed, params)
    integers = "".join(f"int {name}, " for name in sizes)
    return f"{before}void kernel({integers}{params})\n{{{body}", sizes


def test_random_programs_with_symbolic_extents(tmp_path: Path) -> None:
    path = str(tmp_path / "kernel.c")
    read = 0
    for seed in range(15):
        rng = random.Random(seed)
        program = random_program(rng)
        text, sizes = with_symbolic_extents(program.text, rng)
        (tmp_path / "kernel.c").write_text(text)
        try:
            fixed = read_c(path, defines=[(name, str(value)) for name, value in sizes.items()])
        except SourceError:
            continue
        read += 1
        func = read_c(path)
        inputs = {**random_inputs(fixed, seed, program.given), **sizes}
        wanted = run_c(path, func, inputs)
        for found in (evaluate(func, inputs), evaluate(fixed, inputs)):
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array, err_msg=f"{seed}: {name}")
    assert read > 9
