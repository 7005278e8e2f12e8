"""The host-compiled program, random inputs, the comparison, and `@input` lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import DspgenError, SourceError
from dspgen.frontend.read import read_c
from dspgen.oracle import Reference, Verdict, compare, default_inputs, random_inputs, reference, run_c
from dspgen.oracle.reference import perturb
from dspgen.oracle.run import host_program
from plant_core.support.location import PlantError

TEXT = """/* Mixes.
 * @input w expr cos(2*pi*arange(N)/M)
 * @input order expr bitrev(N)
 */
#include <math.h>
#define N 8
#define M (2 * N)
static void helper(void) {}
static void mix(const float x[N], const float w[N], const int order[N], float y[N], float gain)
{
#pragma scop
  for (int i = 0; i < N; i++)
    y[i] = sqrtf(fabsf(x[i])) * w[i] * gain + 1e-3f * (float)order[i] + .5F + 2.f;
#pragma endscop
}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "mix.c"
    file.write_text(TEXT)
    return str(file)


def test_run_in_single_and_in_double(path: str) -> None:
    func = read_c(path)
    inputs = random_inputs(func, 1)
    before = {name: np.copy(value) for name, value in inputs.items()}
    single, double = run_c(path, func, inputs), run_c(path, func, inputs, double=True)
    x, w, gain = (np.asarray(inputs[k], np.float64) for k in ("x", "w", "gain"))
    # `gain` reaches both as a float, though its Python value has more digits.
    exact = np.sqrt(abs(x)) * w * np.float64(np.float32(gain)) + 1e-3 * np.asarray(inputs["order"]) + 2.5
    assert single["y"].dtype == np.float32 and double["y"].dtype == np.float64
    np.testing.assert_allclose(double["y"], exact, rtol=1e-14)
    np.testing.assert_allclose(single["y"], exact, rtol=1e-6)
    assert list(single) == ["y"]
    for name, value in before.items():
        np.testing.assert_array_equal(value, inputs[name])


def test_default_inputs(path: str) -> None:
    func = read_c(path)
    found = default_inputs(path, func)
    np.testing.assert_array_equal(found["w"], np.cos(2 * np.pi * np.arange(8) / 16).astype(np.float32))
    np.testing.assert_array_equal(found["order"], [0, 4, 2, 6, 1, 5, 3, 7])
    smaller = random_inputs(func, 2, found)
    assert smaller["w"] is found["w"]


def test_default_inputs_know_of_given_scalars_and_of_lines_above(tmp_path: Path) -> None:
    file = tmp_path / "k.c"
    file.write_text(
        "// @input m 3\n// @input x expr arange(n) * m\n// @input y expr ones(m)\n"
        "void k(int n, int m, const float x[n], float y[m]) { for (int i = 0; i < n; i++) y[0] += x[i]; }\n"
    )
    func = read_c(str(file))
    found = default_inputs(str(file), func, given={"n": np.int32(4)})
    np.testing.assert_array_equal(found["x"], [0, 3, 6, 9])
    np.testing.assert_array_equal(found["y"], [1, 1, 1])
    assert set(default_inputs(str(file), func, given={"n": 4, "m": 2, "x": np.zeros(4)})) == {"y"}
    with pytest.raises(SourceError, match="'n' has no value here"):
        default_inputs(str(file), func)
    file.write_text("// @input x expr 255 - arange(256)\nvoid k(int n, float x[n]) { x[0] = 1; }\n")
    with pytest.raises(SourceError, match="the size of 'x' isn't known"):
        default_inputs(str(file), read_c(str(file)))


@pytest.mark.parametrize("expression", ["__import__('os')", "x.__class__", "cos(", "unknown + 1", "cos(N, N, N, N)"])
def test_default_inputs_refuse_other_python(tmp_path: Path, expression: str) -> None:
    file = tmp_path / "bad.c"
    file.write_text(f"// @input x expr {expression}\n#define N 4\nvoid k(float x[N]) {{ x[0] = 1; }}\n")
    with pytest.raises(SourceError) as caught:
        default_inputs(str(file), read_c(str(file)))
    assert caught.value.problems[0].code == "DG023"


def test_random_inputs_are_the_same_for_a_seed(path: str) -> None:
    func = read_c(path)
    first, second, other = random_inputs(func, 5), random_inputs(func, 5), random_inputs(func, 6)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first["x"], other["x"])
    assert np.all(np.abs(first["x"]) <= 1)


def test_symbolic_sizes_need_values_that_fit(tmp_path: Path) -> None:
    file = tmp_path / "n.c"
    file.write_text("void k(int n, const int d[4], int y[4]) { for (int i = 0; i < n; i++) y[i] = 100 / d[i]; }\n")
    func = read_c(str(file))
    with pytest.raises(DspgenError) as caught:
        random_inputs(func, 1)
    assert "'n'" in caught.value.render()
    inputs = random_inputs(func, 1, {"n": 4})
    assert np.all(inputs["d"] != 0)
    assert run_c(str(file), func, inputs)["y"].shape == (4,)
    with pytest.raises(SourceError) as outside:
        run_c(str(file), func, {**inputs, "n": 5})
    assert outside.value.problems[0].code == "DG012"


def test_wrong_inputs(path: str) -> None:
    func = read_c(path)
    inputs = random_inputs(func, 1)
    with pytest.raises(PlantError, match="shape"):
        run_c(path, func, {**inputs, "x": np.zeros(3)})
    with pytest.raises(PlantError, match="no input"):
        run_c(path, func, {k: v for k, v in inputs.items() if k != "gain"})


def test_edited_file_is_built_again(path: str) -> None:
    func = read_c(path)
    inputs = random_inputs(func, 1)
    first = run_c(path, func, inputs)["y"]
    Path(path).write_text(TEXT.replace("2.f", "3.f"))
    np.testing.assert_allclose(run_c(path, func, inputs)["y"], first + 1, rtol=1e-6)


def test_compare(path: str) -> None:
    func = read_c(path)
    exact = np.linspace(1, 2, 8)
    expected = exact.astype(np.float32)
    expected[3] += np.float32(1e-6)
    wanted = Reference({"y": expected}, {"y": exact})
    assert compare(func, {"y": expected}, wanted, "strict") == Verdict(0.0)
    near = expected + np.float32(1e-6)
    assert compare(func, {"y": near}, wanted, "reassoc").verified
    verdict = compare(func, {"y": near}, wanted, "strict")
    assert not verdict.verified and verdict.max_error > 0
    assert verdict.details[0].startswith("differs from the C program: y[0]: got") and verdict.wrong == {"y": 8}
    far = expected.copy()
    far[5] += np.float32(0.01)
    verdict = compare(func, {"y": far}, wanted, "reassoc")
    assert not verdict.verified and verdict.max_error == pytest.approx(0.01, rel=1e-3)
    assert verdict.details[0].startswith("differs from the C program: y[5]: got") and verdict.wrong == {"y": 1}
    assert compare(func, {}, wanted, "reassoc").wrong == {"y": 8}


def test_ill_conditioned_elements_are_neither_right_nor_wrong(path: str) -> None:
    """One element has no digit of the exact result: it doesn't widen the bound of the others."""
    func = read_c(path)
    exact = np.linspace(1, 2, 8)
    expected = exact.astype(np.float32)
    expected[2] = 7
    for perturbed in ((), ({"y": np.where(np.arange(8) == 2, np.float32(5), expected)},)):
        wanted = Reference({"y": expected}, {"y": exact}, perturbed)
        assert compare(func, {"y": expected}, wanted, "reassoc").verified
        got = expected.copy()
        got[2] = 30
        verdict = compare(func, {"y": got}, wanted, "reassoc")
        assert not verdict.verified and verdict.wrong == {} and verdict.ill_conditioned == {"y": 1}
        assert "y[2] is ill-conditioned: got 30.0, the C program gives 7.0" in verdict.details[0]
        assert verdict.max_error == 0
        got[5] += np.float32(1e-3)
        assert compare(func, {"y": got}, wanted, "reassoc").wrong == {"y": 1}
    assert compare(func, {"y": got}, wanted, "strict").wrong == {"y": 2}


def test_perturbed_runs_tell_the_conditioning_of_double(tmp_path: Path) -> None:
    """In double there is no wider type to compare with: a difference of two equal numbers tells by its inputs alone."""
    file = tmp_path / "cancel.c"
    file.write_text(
        "void k(const double x[64], double y[2]) {\n  double s = 0, t = 0;\n"
        "  for (int i = 0; i < 64; i++) s += x[i] * 1e17 - x[63 - i] * 1e17;\n"
        "  for (int i = 0; i < 64; i++) t += x[i];\n  y[0] = s; y[1] = t;\n}\n"
    )
    func = read_c(str(file))
    wanted = reference(str(file), func, random_inputs(func, 1))
    got = wanted.single["y"] + [100.0, 0.0]
    verdict = compare(func, {"y": got}, wanted, "reassoc")
    assert verdict.ill_conditioned == {"y": 1} and verdict.wrong == {}
    got = wanted.single["y"] + [0.0, 1e-3]
    assert compare(func, {"y": got}, wanted, "reassoc").wrong == {"y": 1}


def test_perturbed_inputs_stay_in_their_range(path: str) -> None:
    func = read_c(path)
    inputs = random_inputs(func, 1)
    moved = perturb(func, inputs, 0)
    assert np.all(np.abs(moved["x"]) <= np.abs(inputs["x"])) and 0 < np.sum(moved["x"] != inputs["x"]) < 8
    np.testing.assert_allclose(moved["x"], inputs["x"], rtol=1e-6)
    np.testing.assert_array_equal(moved["order"], inputs["order"])
    assert all(np.array_equal(value, perturb(func, inputs, 0)[name]) for name, value in moved.items())


def test_compare_not_a_number(path: str) -> None:
    func = read_c(path)
    exact = np.linspace(1, 2, 8)
    exact[0], exact[1] = np.nan, np.inf
    expected = exact.astype(np.float32)
    wanted = Reference({"y": expected}, {"y": exact})
    assert compare(func, {"y": expected}, wanted, "strict").verified
    assert compare(func, {"y": expected}, wanted, "reassoc").verified
    wrong = expected.copy()
    wrong[0] = 1
    assert compare(func, {"y": wrong}, wanted, "reassoc").wrong == {"y": 1}
    wrong = expected.copy()
    wrong[4] = np.nan
    assert compare(func, {"y": wrong}, wanted, "reassoc").wrong == {"y": 1}


def test_subscripts_are_drawn_inside_their_array(tmp_path: Path) -> None:
    file = tmp_path / "k.c"
    file.write_text(
        "void k(const int p[40], const int q[40], const int r[40], float x[7], float y[50]) {\n"
        "  for (int i = 0; i < 40; i++) { x[p[i]] += y[q[p[i]]]; y[i] = x[r[i] % 7]; } }"
    )
    values = random_inputs(read_c(str(file)), 3)
    assert {name: (np.min(values[name]) >= 0, np.max(values[name]) < 50) for name in "pqr"} == {
        "p": (True, True),
        "q": (True, True),
        "r": (True, False),
    }
    assert np.max(values["p"]) < 7


@pytest.mark.parametrize("use", ["j < p[i]; j++) y[i] = 1", "j < 2; j++) y[p[i] + j] = 1"])
def test_arrays_that_bounds_are_computed_from_must_be_given(tmp_path: Path, use: str) -> None:
    file = tmp_path / "k.c"
    file.write_text(f"void k(const int p[9], float y[9]) {{ for (int i = 0; i < 9; i++) for (int j = 0; {use}; }}")
    with pytest.raises(DspgenError, match="must be given"):
        random_inputs(read_c(str(file)), 0)
    assert set(random_inputs(read_c(str(file)), 0, {"p": np.zeros(9, np.int32)})) == {"p", "y"}


@pytest.mark.parametrize("value", ["a[i] / b[i]", "a[i] % b[i]", "b[b[i] + 1000000000000000]"])
def test_a_program_that_a_signal_ends_is_told(tmp_path: Path, value: str) -> None:
    """What the program is not to be asked: this process goes on, and runs the next one."""
    file = tmp_path / "k.c"
    file.write_text(f"void k(int a[4], const int b[4]) {{ for (int i = 0; i < 4; i++) a[i] = {value}; }}")
    func = read_c(str(file))
    for _ in range(2):
        with pytest.raises(DspgenError) as caught:
            run_c(str(file), func, {"a": np.ones(4, np.int32), "b": np.zeros(4, np.int32)})
        assert caught.value.problems[0].code == "DG523"
    if "/" in value:
        assert list(run_c(str(file), func, {"a": np.full(4, 6), "b": np.full(4, 3)})["a"]) == [2] * 4


def test_the_compiler_drops_no_program(tmp_path: Path) -> None:
    """gcc 12.2 takes this function for one without effect where it sees the call."""
    path = tmp_path / "f.c"
    path.write_text(
        "void f(double y[102], const double x[11]) {\n"
        "  for (int i = 0; i < 6; i++) { y[40 - i] -= x[2 * i] * 1.5; y[17 * i] = x[i]; } }"
    )
    made = host_program(str(path), read_c(str(path)))({"y": np.zeros(102), "x": np.arange(11.0) + 1})
    assert made["y"][[0, 17, 34, 40]].tolist() == [1, 2, 3, -1.5]
