"""Threads, local arrays, symbolic extents and statements that assign nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

from backends.cpu.build import build
from backends.cpu.emit import emit
from backends.cpu.kernel import Kernel
from plant_core.interp.func import evaluate
from plant_core.ir.accesses import integer
from plant_core.ir.func import (
    Alloc,
    Binary,
    Buf,
    Call,
    Comp,
    Expr,
    Free,
    Func,
    Iter,
    Load,
    Memcpy,
    Param,
    ScalarParam,
    Val,
    Verbatim,
)
from plant_core.ir.loop_tree import Do, For, Leaf, Seq, Tile, Tree
from plant_core.ir.scheduled import as_written
from plant_core.scan import scan
from plant_core.support.location import Loc, PlantError
from tests.support.cpu_programs import check, inputs_of, read, run_compiled, tagged

HERE = Loc("t.c", 1)
N = Param("n", "i32")
AT, ACROSS = Iter("i"), Iter("j")


def comp(name: str, iters: tuple[str, ...], target: Load, value: Expr, defines: str | None = None) -> Comp:
    space = f"{name}[{', '.join(iters)}]"
    times = ", ".join(["0", *(x for i in iters for x in (i, "0"))])
    return Comp(
        name, iters, isl.Set(f"{{ {space} }}"), isl.Map(f"{{ {space} -> [{times}] }}"), target, value, HERE, defines
    )


def leaf(found: Comp) -> Leaf:
    return Leaf(found, tuple(Iter(i) for i in found.iters), Tile((1,) * len(found.iters)))


def call(func: Func, tree: Tree, folder: Path, **given: object) -> str:
    source = emit(func, tree)
    Kernel(func, build(source, cache_dir=folder), threads=2)(**given)
    return source


def test_parallel_keeps_restrict(tmp_path: Path) -> None:
    text = """void k(float c[40][24], const float a[40][30], const float b[30][24], float s) {
        for (int t = 0; t < 2; t++) for (int i = 0; i < 40; i++) for (int j = 0; j < 24; j++)
            c[i][j] = c[i][j] * s + a[i][j] * b[j][0] + t; }"""
    source = check(tmp_path, text, ("S0", "i", "parallel"), ("S0", "j", "vectorize"))
    nest = source[source.index("static __attribute__((noinline)) void k_nest0(") :]
    header = nest[: nest.index("{")]
    assert "float (*__restrict c)[24]" in header and "long t" in header and "float s" in header
    assert "#pragma omp parallel\n" in source and "#pragma omp for schedule(static)" in nest


def test_one_level_of_threads(tmp_path: Path) -> None:
    text = "void k(float a[9][9]) { for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) a[i][j] += 1.0f; }"
    source = check(tmp_path, text, ("S0", "i", "parallel"), ("S0", "j", "parallel"))
    assert source.count("omp parallel") == 1
    func = read(tmp_path, text)
    assert "omp" not in emit(func, scan(tagged(as_written(func), ("S0", "i", "parallel"))), threads=False)


def test_private_array(tmp_path: Path) -> None:
    text = """void k(float r[64][16], const float a[64][16]) { float t[16];
        for (int i = 0; i < 64; i++) {
            for (int j = 0; j < 16; j++) t[j] = a[i][j] * 2.0f;
            for (int j = 0; j < 16; j++) r[i][j] = t[15 - j] + t[j]; } }"""
    func = read(tmp_path, text)
    private = replace(func, bufs=tuple(replace(b, alloc_at=("S0", "i")) if b.name == "t" else b for b in func.bufs))
    scheduled = tagged(as_written(private), ("S0", "i", "parallel"), ("S0", "j", "vectorize"), ("S1", "j", "vectorize"))
    inputs = inputs_of(func)
    got, source = run_compiled(scheduled, inputs, tmp_path)
    np.testing.assert_array_equal(got["r"], evaluate(func, inputs)["r"])
    nest = source[source.index("void k_nest0") : source.index('extern "C"')]
    assert "alignas(64) float t[16];" in nest


def test_private_array_of_a_plain_loop(tmp_path: Path) -> None:
    """A cell of an array that each iteration has anew isn't kept through the loop."""
    text = """void k(float r[9], const float a[9]) { float t[2];
        for (int i = 0; i < 9; i++) { t[0] = a[i] * 2.0f; r[i] = t[0] + a[i]; } }"""
    func = read(tmp_path, text)
    private = replace(func, bufs=tuple(replace(b, alloc_at=("S0", "i")) if b.name == "t" else b for b in func.bufs))
    inputs = inputs_of(func)
    got, source = run_compiled(as_written(private), inputs, tmp_path)
    np.testing.assert_array_equal(got["r"], evaluate(func, inputs)["r"])
    assert source.index("for (long i") < source.index("float t[2];")


def test_symbolic_extents(tmp_path: Path) -> None:
    wide = Binary("add", N, integer(1), "i32")
    a = Buf("a", "f32", (N, wide), "param")
    t = Buf("t", "f32", (N, wide), "local")
    x = Buf("x", "f32", (N,), "param", const=True)
    func_comps = (
        comp("S0", ("i", "j"), Load("t", (AT, ACROSS), "f32"), Load("x", (AT,), "f32")),
        comp("S1", ("i", "j"), Load("a", (AT, ACROSS), "f32"), Load("t", (AT, ACROSS), "f32")),
    )
    func = Func("k", (ScalarParam("n", "i32"), a, x), (a, t, x), func_comps, HERE)

    def nest(statement: Comp) -> Tree:
        inner = For("j", integer(0), wide, 1, leaf(statement), "vectorize")
        return For("i", integer(0), N, 1, inner, "parallel")

    array = np.zeros((70, 71), np.float32)
    line = np.arange(70, dtype=np.float32)
    source = call(func, Seq((nest(func_comps[0]), nest(func_comps[1]))), tmp_path, n=70, a=array, x=line)
    np.testing.assert_array_equal(array, np.repeat(line[:, None], 71, axis=1))
    assert "auto a = (float (*)[n + 1])plant_a;" in source and "free(t);" in source
    with pytest.raises(PlantError, match=r"has shape \(70, 71\), not \(69, 70\)"):
        Kernel(func, build(source, cache_dir=tmp_path))(69, array, line)


def test_effects(tmp_path: Path) -> None:
    a, b = (Buf(name, "f64", (6,), "param") for name in "ab")
    t = Buf("t", "f64", (6,), "local")
    double = comp("S0", ("i",), Load("t", (AT,), "f64"), Binary("mul", Load("a", (AT,), "f64"), Val(2, "f64"), "f64"))
    func = Func("k", (a, b), (a, b, t), (double,), HERE)
    tree = Seq(
        (
            Do(Alloc("t"), HERE),
            For("i", integer(0), integer(6), 1, leaf(double)),
            Do(Memcpy("b", "t"), HERE),
            Do(Free("t"), HERE),
            Do(Verbatim("b[0] += a[1]"), HERE),
        )
    )
    given = {"a": np.arange(6.0), "b": np.zeros(6)}
    call(func, tree, tmp_path, **given)
    assert given["b"].tolist() == [1, 2, 4, 6, 8, 10]


def test_bound_from_memory(tmp_path: Path) -> None:
    """A value that the program reads bounds a loop, in each iteration anew."""
    rows = Buf("rows", "i32", (4,), "param", const=True)
    m = Buf("m", "i32", (), "local")
    out = Buf("out", "f32", (4,), "param")
    first = comp("S0", ("i",), Load("m", (), "i32"), Load("rows", (AT,), "i32"), "m")
    add = Binary("add", Load("out", (AT,), "f32"), Val(1, "f32"), "f32")
    second = comp("S1", ("i", "j"), Load("out", (AT,), "f32"), add)
    func = Func("k", (rows, out), (rows, out, m), (first, second), HERE)
    inner = For("j", integer(0), Param("m", "i32"), 1, leaf(second))
    tree = For("i", integer(0), integer(4), 1, Seq((leaf(first), inner)), "parallel")
    given = {"rows": np.array([3, 0, 2, 1], np.int32), "out": np.zeros(4, np.float32)}
    call(func, tree, tmp_path, **given)
    assert given["out"].tolist() == [3, 0, 2, 1]


def test_calls(tmp_path: Path) -> None:
    a = Buf("a", "f32", (40,), "param")
    value = Call("pow", (Call("expf", (Load("a", (AT,), "f32"),), "f32"), Val(0.5, "f32")), "f32")
    func = Func("k", (a,), (a,), (comp("S0", ("i",), Load("a", (AT,), "f32"), value),), HERE)
    tree = For("i", integer(0), integer(40), 1, leaf(func.comps[0]), "vectorize")
    array = np.linspace(-2, 2, 40, dtype=np.float32)
    want = np.exp(array) ** 0.5
    source = call(func, tree, tmp_path, a=array)
    np.testing.assert_allclose(array, want, rtol=1e-5)
    assert "#pragma omp simd" in source and "not on vectors: 'pow'" in source
    wrong = replace(func.comps[0], value=Call("mystery", (Load("a", (AT,), "f32"),), "f32"))
    with pytest.raises(PlantError, match="'mystery' on f32 has no definition"):
        emit(replace(func, comps=(wrong,)), For("i", integer(0), integer(4), 1, leaf(wrong)))


def test_places_that_a_cpu_lacks() -> None:
    t = Buf("t", "f32", (6,), "local", location="gpu_shared")
    func = Func("k", (), (t,), (comp("S0", (), Load("t", (integer(0),), "f32"), Val(1, "f32")),), HERE)
    with pytest.raises(PlantError, match="gpu_shared"):
        emit(func, leaf(func.comps[0]))


def test_names_that_mean_something_else(tmp_path: Path) -> None:
    """Names that C++ or the emitted helpers use are the user's all the same."""
    text = """void exp(float new[40], const float new_[40], float load, int this) { float store; float class[40];
        for (int free = 0; free < 40; free++) class[free] = new_[free] * load + this;
        for (int splat = 0; splat < 40; splat++) {
            store = class[splat]; new[splat] = store > 0.0f ? store : 0.0f; } }"""
    source = check(tmp_path, text, ("S0", "free", "vectorize"))
    assert 'extern "C" void exp_(' in source
