"""Schedules written by hand, for what people write them for: compiled, run on NumPy, printed, and read back."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from backends.cpu.kernel import compile_cpu
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.func import Alloc, Free, Memcpy
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.parser import parse_scheduled
from plant_core.ir.printer import print_scheduled
from plant_core.lang import (
    Function,
    call,
    cast,
    exp,
    iters,
    maximum,
    minimum,
    sqrt,
    val,
    verbatim,
    where,
)
from plant_core.scan import scan

i, j, k, p, q = iters("i j k p q")
Array = np.ndarray[Any, Any]


def _runs(f: Function, inputs: dict[str, Any], expected: dict[str, Array], *, evaluated: bool = True) -> str:
    """The tree's text, after the compiled program, the evaluated tree and the text read back have all done it."""
    scheduled = f.scheduled
    tree = scan(scheduled)
    text = print_tree(tree)
    assert print_tree(scan(parse_scheduled(print_scheduled(scheduled)))) == text
    arrays = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    compile_cpu(scheduled)(**arrays)
    results = [arrays, run_tree(scheduled.func, tree, inputs)] if evaluated else [arrays]
    for found in results:
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6)
    return text


def _random(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(len(shape)).random(shape).astype(dtype)


def test_matmul_in_registers_of_packed_panels() -> None:
    n, m, s, panel, depth = 26, 70, 40, 32, 16
    f = Function("mm", reassoc=True)
    a, b = f.input("a", "f32", (n, s)), f.input("b", "f32", (s, m))
    out = f.output("c", "f32", (n, m))
    f.comp("C_init", {i: n, j: m}, 0, dtype="f32").store(out)
    c = f.comp("C", {i: n, j: m, k: s})
    c.define(a[i, k] * b[k, j] + c[i, j, k - 1]).store(out, (i, j))
    c.split(k, depth).split(i, 12).split("i_i", 4).split(j, panel)
    assert c.loops == ("i_o", "i_i_o", "i_i_i", "j_o", "j_i", "k_o", "k_i")
    c.reorder("k_o", "i_o", "j_o", "i_i_o", "k_i", "i_i_i", "j_i")
    c.option("i_i_i", "isolate").option("j_i", "isolate").tag("j_i", "vectorize").tag("i_i_i", "unroll_explicit")
    x0, x1, k_o = iters("x0 x1 k_o")
    r = iters("r")[0]
    c.cache(
        b, "k_o", shape=(3, depth, panel), iters={p: 3, q: depth, r: panel}, to=(p, q, r), align=64, location="heap",
        source=(depth * k_o + q, panel * p + r), use=(x1 // panel, x0 - depth * k_o, x1 - panel * (x1 // panel)),
    )  # fmt: skip
    x, y = _random(n, s), _random(s, m)
    text = _runs(f, {"a": x, "b": y, "c": np.zeros((n, m), "f4")}, {"c": x @ y})
    full = """\
        for (k_i = 0; k_i < min(40 - 16 * k_o, 16); k_i++)
          unroll_explicit for (i_i_i = 0; i_i_i < 4; i_i_i++)
            vectorize for (j_i = 0; j_i < 32; j_i++)
"""
    assert full in text and "cache_b[j_o][k_i][j_i]" in text


def test_padding_inline() -> None:
    rows, columns = 10, 12
    f = Function("convolution", reassoc=True)
    y, x, r, s = iters("y x r s")
    a, w = f.input("a", "f32", (rows, columns)), f.input("w", "f32", (3, 3))
    out = f.output("out", "f32", (rows, columns))
    inside = (y >= 1) & (y - 1 < rows) & (x >= 1) & (x - 1 < columns)
    padded = f.comp("padded", {y: rows + 2, x: columns + 2}, where(inside, a[y - 1, x - 1], 0))
    start = f.comp("start", {y: rows, x: columns}, 0, dtype="f32").store(out)
    c = f.comp("c", {y: rows, x: columns, r: 3, s: 3})
    c.define(c[y, x, r, s - 1] + padded[y + r, x + s] * w[r, s]).store(out, (y, x))
    padded.inline()
    c.reorder(y, r, s, x).tag(x, "vectorize").after(start, y)
    f[start, c].tag(y, "parallel")
    image, weights = _random(rows, columns), _random(3, 3)
    wide = np.pad(image, 1)
    expected = sum(wide[v : v + rows, h : h + columns] * weights[v, h] for v in range(3) for h in range(3))
    text = _runs(f, {"a": image, "w": weights, "out": np.zeros_like(image)}, {"out": np.asarray(expected)})
    assert text.startswith("parallel for (y = 0; y < 10; y++) {\n") and "padded" not in text


def test_time_in_tiles_and_a_wavefront() -> None:
    f = Function("jacobi")
    t = iters("t")[0]
    n, steps = f.param("n"), f.param("steps")
    f.set_constraint(n >= 3, steps >= 1)
    a = f.output("a", "f64", (2, n))
    c = f.comp("c", {t: steps, i: (1, n - 1)})
    c.define((a[t % 2, i - 1] + a[t % 2, i] + a[t % 2, i + 1]) / 3).store(a, ((t + 1) % 2, i))
    c.skew(t, i, 1).tile({t: 4, i: 8})
    c.apply_sch("{ [t, i, ti, ii] -> [t + i, i, ti, ii] }", loops=("wave", "i_o", "t_i", "i_i")).tag("i_o", "parallel")
    given = _random(40, dtype="f8")
    planes = np.stack([given, given])
    for step in range(11):
        old, new = planes[step % 2], planes[(step + 1) % 2]
        new[1:-1] = (old[:-2] + old[1:-1] + old[2:]) / 3
    text = _runs(f, {"n": 40, "steps": 11, "a": np.stack([given, given])}, {"a": planes})
    assert text.startswith("for (wave = 0;") and "  parallel for (i_o =" in text


def test_computations_that_need_each_other() -> None:
    f = Function("solve", reassoc=True)
    n = f.param("n")
    f.set_constraint(n >= 1)
    matrix, b, x = f.input("m", "f64", (n, n)), f.input("b", "f64", n), f.output("x", "f64", n)
    f.comp("start", {i: n}, b[i]).store(x)
    rest = f.comp("rest", {i: n, j: i})
    solved = f.comp("solved", {i: n}, rest[i, i - 1] / matrix[i, i], after=(rest, i)).store(x)
    rest.define(rest[i, j - 1] - matrix[i, j] * solved[j]).store(x, i)
    lower = np.tril(_random(20, 20, dtype="f8")) + 20 * np.eye(20)
    rhs = _random(20, dtype="f8")
    inputs = {"n": 20, "m": lower, "b": rhs, "x": np.zeros(20)}
    text = _runs(f, inputs, {"x": np.linalg.solve(lower, rhs)})
    assert text == (
        "for (i = 0; i < n; i++)\n"
        "  x[i] = b[i];\n"
        "for (i = 0; i < n; i++) {\n"
        "  for (j = 0; j < i; j++)\n"
        "    x[i] = x[i] - m[i][j] * x[j];\n"
        "  x[i] = x[i] / m[i][i];\n"
        "}\n"
    )


def test_rows_of_a_softmax() -> None:
    f = Function("softmax", reassoc=True)
    n, m = f.param("n"), f.param("m")
    f.set_constraint(n >= 1, m >= 1)
    x, y = f.input("x", "f32", (n, m)), f.output("y", "f32", (n, m))
    most, total = f.local("most", "f32", n), f.local("total", "f32", n)
    first = f.comp("first", {i: n}, x[i, 0]).store(most)
    peak = f.comp("peak", {i: n, j: (1, m)})
    peak.define(maximum(peak[i, j - 1], x[i, j])).store(most, i)
    power = f.comp("power", {i: n, j: m}, exp(x[i, j] - peak[i, m - 1])).store(y)
    none = f.comp("none", {i: n}, 0, dtype="f32").store(total)
    added = f.comp("added", {i: n, j: m})
    added.define(added[i, j - 1] + power[i, j]).store(total, i)
    share = f.comp("share", {i: n, j: m}, power[i, j] / added[i, m - 1]).store(y)
    for earlier, later in ((first, peak), (peak, power), (power, none), (none, added), (added, share)):
        later.after(earlier, i)
    f["first", "peak", "power", "none", "added", "share"].tag(i, "parallel")
    f[peak, power].tag(j, "vectorize")
    data = _random(5, 37)
    powers = np.exp(data - data.max(1, keepdims=True))
    inputs = {"n": 5, "m": 37, "x": data, "y": np.zeros_like(data)}
    text = _runs(f, inputs, {"y": powers / powers.sum(1, keepdims=True)})
    assert text.count("for (i = ") == 1 and "  vectorize reduction for (j = 1; j < m; j++)\n" in text


def test_transposition_through_a_padded_tile() -> None:
    n, m = 40, 70
    f = Function("transpose")
    a, out = f.input("a", "f32", (n, m)), f.output("o", "f32", (m, n))
    t = f.comp("t", {i: m, j: n}, a[j, i]).store(out)
    t.tile(i, j, 32, 32)
    i_o, j_o, x0, x1 = iters("i_o j_o x0 x1")
    t.cache(
        a, "j_o", shape=(32, 33), iters={p: 32, q: 32}, to=(p, q), source=(32 * j_o + p, 32 * i_o + q),
        use=(x0 - 32 * j_o, x1 - 32 * i_o), into="tile",
    )  # fmt: skip
    t.tag("i_o", "parallel").tag("j_i", "vectorize")
    data = _random(n, m)
    text = _runs(f, {"a": data, "o": np.zeros((m, n), "f4")}, {"o": data.T})
    assert "tile[p][q] = a[32 * j_o + p][32 * i_o + q];" in text
    assert "o[32 * i_o + i_i][32 * j_o + j_i] = tile[j_i][i_i];" in text


def test_a_halo_in_shared_memory_of_a_gpu() -> None:
    f = Function("gpu")
    a, out = f.input("a", "f32", (66, 130)), f.output("o", "f32", (64, 128))
    c = f.comp("c", {i: 64, j: 128}, (a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2]) / 4).store(out)
    c.tile(i, j, 16, 32)
    for loop, tag in (("i_o", "block_y"), ("j_o", "block_x"), ("i_i", "thread_y"), ("j_i", "thread_x")):
        c.tag(loop, f"gpu_{tag}")
    c.cache_identity(a, "j_o", location="gpu_shared", exact=False)
    text = print_tree(scan(f.scheduled))
    assert "\n    __syncthreads();\n" in text and text.count("gpu_thread_x for") == 2


def test_every_kind_of_expression_compiles() -> None:
    f = Function("kinds")
    n, s = f.param("n"), f.param("s", "f32")
    f.set_constraint(n >= 1)
    a, b = f.input("a", "f32", n), f.input("b", "i32", n)
    o, r = f.output("o", "f64", n), f.output("r", "i32", n)
    u = f.comp("u", {i: n}, val(2, "f32") * a[i] + s)
    least = call("fmin", cast("f64", u[i]), 2.5)
    f.comp("v", {i: n}, where((b[i] % 3 == 0) | (i > 2), least, abs(-sqrt(u[i])) + exp(a[i]) ** 2)).store(o)
    bits = ~(b[i] << 1) ^ (b[i] >> 1) & 7
    f.comp("w", {i: n}, bits | minimum(b[i], i, 3) + verbatim("(1 + 2)") - b[i] // 2 + maximum(i % 4, 1) * n / 3).store(
        r
    )
    x, y, at = _random(20), np.arange(20, dtype="i4") * 7 % 50, np.arange(20)
    doubled = 2 * x + np.float32(0.5)
    chosen = np.where((y % 3 == 0) | (at > 2), np.minimum(doubled, 2.5), np.sqrt(doubled) + np.exp(x) ** 2)
    small = np.minimum(np.minimum(y, at), 3) + 3 - y // 2 + np.maximum(at % 4, 1) * 20 // 3
    inputs = {"n": 20, "s": 0.5, "a": x, "b": y, "o": np.zeros(20), "r": np.zeros(20, "i4")}
    _runs(f, inputs, {"o": chosen, "r": ~(y << 1) ^ (y >> 1) & 7 | small}, evaluated=False)


def test_memory_by_hand() -> None:
    f = Function("by_hand")
    a, out, t = f.input("a", "f32", (8, 16)), f.output("o", "f32", (8, 16)), f.local("t", "f32", 16)
    u = f.local("u", "f32", (8, 16))
    f.effect("copy", {}, Memcpy(u, a))  # type: ignore[arg-type]
    start = f.effect("start", {i: 8}, Alloc("t"))
    x = f.comp("x", {i: 8, j: 16}, u[i, j] * 3, after=(start, i)).store(t, j)
    y = f.comp("y", {i: 8, j: 16}, x[i, 15 - j], after=(x, i)).store(out)
    f.effect("end", {i: 8}, Free("t"), after=(y, i))
    f.effect("say", {}, ";")
    data = _random(8, 16)
    text = _runs(f, {"a": data, "o": np.zeros_like(data)}, {"o": 3 * data[:, ::-1]}, evaluated=False)
    assert text.startswith("memcpy(u, a);\nfor (i = 0; i < 8; i++) {\n  alloc(t);\n")
    assert text.endswith("  free(t);\n}\n;\n")


@pytest.mark.parametrize(
    "modules", ["plant_core.lang, plant_core.ir.parser, plant_core.schedule.auto, plant_core.schedule.memory"]
)
def test_the_library_stands_alone(modules: str) -> None:
    program = f"import sys, {modules}, backends.cpu.kernel; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.split(".")[0] in ("dspgen", "click", "rich", "pycparser")]


@pytest.mark.parametrize("rows", [1, 8])
def test_arrays_of_one_iteration_whatever_its_loop_is_called(rows: int) -> None:
    """The loop that has the array to itself is called `j`, and in the tree another one is."""
    f = Function("own")
    a, out, t = f.input("a", "f32", (rows, 16)), f.output("o", "f32", (rows, 16)), f.local("t", "f32", 16)
    x = f.comp("x", {i: rows, j: 16}, a[i, j] * 2)
    y = f.comp("y", {j: rows, k: 16}, x[j, 15 - k] + 1).store(out)
    y.after(x, i)
    x.store(t, j)
    y.alloc_at(t, j)
    data = _random(rows, 16)
    text = _runs(f, {"a": data, "o": np.zeros_like(data)}, {"o": 2 * data[:, ::-1] + 1})
    start = "for (i = 0; i < 8; i++) {\n  alloc(t);\n  for (j = " if rows > 1 else "alloc(t);\nfor (j = "
    assert text.startswith(start)
