"""Values that the program computes and that bound its loops; and the evaluator of loop trees."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import islpy as isl
import numpy as np
import pytest

from plant_core.interp.loop_tree import run_tree
from plant_core.ir.func import (
    Access,
    Action,
    Alloc,
    Binary,
    Buf,
    Comp,
    DType,
    Effect,
    Expr,
    Extent,
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
from plant_core.ir.loop_tree import Do, For, Leaf, Seq, Tile
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.scheduled import AstOption, Scheduled
from plant_core.scan import scan
from plant_core.support.location import Loc, PlantError
from tests.support.plant_builder import lines_of, nest_of

_LOC = Loc("t.c", 1)


# --- values that bound loops --------------------------------------------------------------------------------------


def _load(buf: str, *indices: Expr, dtype: DType = "f32") -> Load:
    return Load(buf, indices, dtype)


def _plus(left: Expr, right: Expr, dtype: DType = "i32") -> Binary:
    return Binary("add", left, right, dtype)


def _comp(name: str, domain: str, target: Load, value: Expr, defines: str | None = None) -> Comp:
    """The schedule is given elsewhere."""
    space = isl.Set(domain)
    iters = tuple(space.get_dim_name(isl.dim_type.set, k) for k in range(space.dim(isl.dim_type.set)))
    return Comp(name, iters, space, isl.Map("{ A[] -> [0] }"), target, value, _LOC, defines)


def _effect(name: str, domain: str, action: Action) -> Effect:
    space = isl.Set(domain)
    iters = tuple(space.get_dim_name(isl.dim_type.set, k) for k in range(space.dim(isl.dim_type.set)))
    return Effect(name, iters, space, isl.Map("{ A[] -> [0] }"), action, _LOC)


def _buf(name: str, dtype: DType, *shape: Extent, local: bool = False) -> Buf:
    return Buf(name, dtype, shape, "local" if local else "param")


_ONE = Val(1, "i32")
_I0, _I1, _I2 = Iter("i0"), Iter("i1"), Iter("i2")
_M, _B0 = Param("m", "i32"), Param("b0", "i32")
_CSR = (
    _comp("b0", "[m] -> { b0[i0] : 0 <= i0 < m }", _load("b0", dtype="i32"), _load("ptr", _I0, dtype="i32"), "b0"),
    _comp("b1", "[m] -> { b1[i0] : 0 <= i0 < m }", _load("b1", dtype="i32"),
          _load("ptr", _plus(_I0, _ONE), dtype="i32"), "b1"),
)  # fmt: skip
_SCALARS = tuple(_buf(name, "i32", local=True) for name in ("m", "b0", "b1"))


def _segment_sum(context: str | None = None) -> Func:
    """PLANT, code 3.3."""
    bufs = (_buf("count", "i32", 1), _buf("ptr", "i32", 101), _buf("x", "f32", 500), _buf("y", "f32", 100))
    comps = (
        _comp("m", "{ m[] }", _load("m", dtype="i32"), _load("count", Val(0, "i32"), dtype="i32"), "m"),
        *_CSR,
        _comp("init", "[m] -> { init[i0] : 0 <= i0 < m }", _load("y", _I0), Val(0.0, "f32")),
        _comp(
            "y", "[m, b0, b1] -> { y[i0, i1] : 0 <= i0 < m and 0 <= i1 < b1 - b0 }", _load("y", _I0),
            _plus(_load("x", _plus(_I1, _B0)), _load("y", _I0), "f32"),
        ),
    )  # fmt: skip
    return Func("sums", bufs, (*bufs, *_SCALARS), comps, _LOC, (), None if context is None else isl.Set(context))


_POSITIVE = "[m, b0, b1] -> { : m > 0 and b0 > 0 and b1 > b0%s }"


def _sums_in_order(func: Func) -> Scheduled:
    nests = [nest_of("m", "", "{ m[] -> [0] }")]
    nests += [nest_of(n, "i0", f"{{ {n}[i] -> [1, i, {k}] }}") for k, n in enumerate(("b0", "b1", "init"))]
    return Scheduled(func, (*nests, nest_of("y", "i0 i1", "{ y[i, j] -> [1, i, 3, j, 0] }")))


def _sums_in_fours(func: Func, *, separate: bool = True) -> Scheduled:
    last = "((c = 1 and 4o + 4 <= m) or (c = 2 and 4o + 4 > m))" if separate else "c = 1"
    four = f"i = 4o + u and 0 <= u < 4 and {last}"
    nests = [nest_of("m", "", "{ m[] -> [0] }")]
    nests += [
        nest_of(n, "i0 i1", f"[m] -> {{ {n}[i] -> [c, o, 0, u, {k}] : {four} }}")
        for k, n in enumerate(("b0", "b1", "init"))
    ]
    return Scheduled(
        func, (*nests, nest_of("y", "i0 i1 i2", f"[m] -> {{ y[i, j] -> [c, o, 0, u, 3, j, 0] : {four} }}"))
    )


@pytest.mark.parametrize("context", [None, _POSITIVE % ""])
def test_segment_sums(context: str | None) -> None:
    """PLANT, code 3.4: nothing is tested before it is known, with constraints or without."""
    assert print_tree(scan(_sums_in_order(_segment_sum(context)))) == lines_of("""
        int m = count[0];
        for (i0 = 0; i0 < m; i0++) {
          int b0 = ptr[i0];
          int b1 = ptr[i0 + 1];
          y[i0] = 0.0f;
          for (i1 = 0; i1 < b1 - b0; i1++)
            y[i0] = x[b0 + i1] + y[i0];
        }
        """)


_FOURS = """
        int m = count[0];
        for (i0 = 0; i0 < m / 4; i0++)
          for (i1 = 0; i1 < 4; i1++) {
            int b0 = ptr[4 * i0 + i1];
            int b1 = ptr[4 * i0 + i1 + 1];
            y[4 * i0 + i1] = 0.0f;
            for (i2 = 0; i2 < b1 - b0; i2++)
              y[4 * i0 + i1] = x[b0 + i2] + y[4 * i0 + i1];
          }
        """


def test_separated_segment_sums() -> None:
    """PLANT, code 3.5; and without its second loop where four divides m."""
    assert print_tree(scan(_sums_in_fours(_segment_sum(_POSITIVE % "")))) == lines_of(_FOURS) + lines_of("""
        for (i1 = 0; i1 < m % 4; i1++) {
          int b0 = ptr[4 * ((m - 1) / 4) + i1];
          int b1 = ptr[4 * ((m - 1) / 4) + i1 + 1];
          y[4 * ((m - 1) / 4) + i1] = 0.0f;
          for (i2 = 0; i2 < b1 - b0; i2++)
            y[4 * ((m - 1) / 4) + i1] = x[b0 + i2] + y[4 * ((m - 1) / 4) + i1];
        }
        """)
    func = _segment_sum(_POSITIVE % " and m mod 4 = 0")
    assert print_tree(scan(_sums_in_fours(func))) == lines_of(_FOURS)


@pytest.mark.parametrize("count", [0, 1, 4, 7, 100])
def test_segment_sums_run(count: int) -> None:
    chance = np.random.default_rng(count)
    inputs: dict[str, Any] = {
        "count": np.array([count], np.int32),
        "ptr": np.sort(chance.integers(0, 500, 101)).astype(np.int32),
        "x": chance.random(500).astype(np.float32),
        "y": np.full(100, 7, np.float32),
    }
    expected = inputs["y"].copy()
    for i in range(count):
        expected[i] = 0
        for k in range(inputs["ptr"][i], inputs["ptr"][i + 1]):
            expected[i] = inputs["x"][k] + expected[i]
    func = _segment_sum()
    for scheduled in (_sums_in_order(func), _sums_in_fours(func), _sums_in_fours(func, separate=False)):
        np.testing.assert_array_equal(run_tree(func, scan(scheduled), inputs)["y"], expected)


def _sparse_product() -> Scheduled:
    """PLANT, code 3.7, its caches written by hand: a sparse matrix in rows, times a dense one."""
    bufs = (_buf("ptr", "i32", _plus(_M, _ONE)), _buf("idx", "i32", 500), _buf("val", "f32", 500),
            _buf("b", "f32", _M, _M), _buf("y", "f32", _M, _M))  # fmt: skip
    caches = (_buf("cache_val", "f32", 32, local=True), _buf("cache_idx", "i32", 32, local=True))
    parts = "0 <= i0 < m and 0 <= i < 32 and 0 <= 32o + i < b1 - b0"
    place = _plus(_plus(_B0, Binary("mul", Val(32, "i32"), Iter("o"), "i32")), Iter("i"))
    within = Binary("mod", _I1, Val(32, "i32"), "i32")
    product = Binary("mul", _load("cache_val", within), _load("b", _load("cache_idx", within, dtype="i32"), _I2), "f32")
    comps = (
        *_CSR,
        _comp("cv", f"[m, b0, b1] -> {{ cv[i0, o, i] : {parts} }}", _load("cache_val", Iter("i")), _load("val", place)),
        _comp("ci", f"[m, b0, b1] -> {{ ci[i0, o, i] : {parts} }}", _load("cache_idx", Iter("i"), dtype="i32"),
              _load("idx", place, dtype="i32")),
        _comp("y", "[m, b0, b1] -> { y[i0, i1, i2] : 0 <= i0, i2 < m and 0 <= i1 < b1 - b0 }", _load("y", _I0, _I2),
              _plus(_load("y", _I0, _I2), product, "f32")),
    )  # fmt: skip
    tiles = "0 <= i0 < m and 0 <= 32o < b1 - b0"
    effects = (
        _effect("av", f"[m, b0, b1] -> {{ av[i0, o] : {tiles} }}", Alloc("cache_val")),
        _effect("ai", f"[m, b0, b1] -> {{ ai[i0, o] : {tiles} }}", Alloc("cache_idx")),
        _effect("fi", f"[m, b0, b1] -> {{ fi[i0, o] : {tiles} }}", Free("cache_idx")),
    )
    func = Func("spmm", (ScalarParam("m", "i32"), *bufs), (*bufs, *_SCALARS[1:], *caches), comps, _LOC, effects)
    return Scheduled(
        func,
        (
            nest_of("b0", "i0", "{ b0[i] -> [0, i, 0] }"),
            nest_of("b1", "i0", "{ b1[i] -> [0, i, 1] }"),
            nest_of("av", "i0 o", "{ av[i, o] -> [0, i, 2, o, 0] }"),
            nest_of("cv", "i0 o i", "{ cv[i, o, u] -> [0, i, 2, o, 1, u, 0] }"),
            nest_of("ai", "i0 o", "{ ai[i, o] -> [0, i, 2, o, 2] }"),
            nest_of("ci", "i0 o i", "{ ci[i, o, u] -> [0, i, 2, o, 3, u, 0] }"),
            nest_of("y", "i0 o i j", "{ y[i, k, j] -> [0, i, 2, o, 4, u, 0, j, 0] : k = 32o + u and 0 <= u < 32 }"),
            nest_of("fi", "i0 o", "{ fi[i, o] -> [0, i, 2, o, 5] }"),
        ),
    )


def test_a_sparse_product() -> None:
    """PLANT, code 3.8."""
    scheduled = _sparse_product()
    tree = scan(scheduled)
    assert print_tree(tree) == lines_of("""
        for (i0 = 0; i0 < m; i0++) {
          int b0 = ptr[i0];
          int b1 = ptr[i0 + 1];
          for (o = 0; o < (b1 - b0 - 1) // 32 + 1; o++) {
            alloc(cache_val);
            for (i = 0; i < min(b1 - b0 - 32 * o, 32); i++)
              cache_val[i] = val[b0 + 32 * o + i];
            alloc(cache_idx);
            for (i = 0; i < min(b1 - b0 - 32 * o, 32); i++)
              cache_idx[i] = idx[b0 + 32 * o + i];
            for (i = 0; i < min(b1 - b0 - 32 * o, 32); i++)
              for (j = 0; j < m; j++)
                y[i0][j] = y[i0][j] + cache_val[i] * b[cache_idx[i]][j];
            free(cache_idx);
          }
        }
        """)
    chance = np.random.default_rng(1)
    dense = chance.random((9, 9)).astype(np.float32)
    ptr = np.array([0, 0, 40, 41, 73, 200, 200, 300, 301, 400], np.int32)
    idx, val = chance.integers(0, 9, 500).astype(np.int32), chance.random(500).astype(np.float32)
    inputs: dict[str, Any] = {"m": 9, "ptr": ptr, "idx": idx, "val": val, "b": dense, "y": np.zeros((9, 9), np.float32)}
    expected = np.zeros((9, 9), np.float32)
    for i in range(9):
        for k in range(ptr[i], ptr[i + 1]):
            expected[i] += val[k] * dense[idx[k]]
    np.testing.assert_array_equal(run_tree(scheduled.func, tree, inputs)["y"], expected)


def _nested(rng: random.Random) -> Scheduled:
    """Values that bound loops at two depths, the first defined for some rows only; tiled and ordered at random."""
    n, b, c = Param("n", "i32"), Param("b", "i32"), Param("c", "i32")
    bufs = (_buf("t", "i32", 40), _buf("y", "i32", 40), _buf("z", "i32", 40, 40))
    scalars = (_buf("b", "i32", local=True), _buf("c", "i32", local=True))
    rows = rng.choice(["0 <= i < n", "0 <= i < n and i mod 2 = 1", "2 <= i < n"])
    i, j, k = Iter("i"), Iter("j"), Iter("k")
    comps = (
        _comp("b", f"[n] -> {{ b[i] : {rows} }}", _load("b", dtype="i32"), _load("t", i, dtype="i32"), "b"),
        _comp("free", "[n] -> { free[i] : 0 <= i < n }", _load("y", i, dtype="i32"), _plus(i, n)),
        _comp("s", f"[n, b] -> {{ s[i, j] : {rows} and 0 <= j < b }}", _load("y", i, dtype="i32"),
              _plus(_load("y", i, dtype="i32"), _load("t", j, dtype="i32"))),
        _comp("c", f"[n, b] -> {{ c[i, j] : {rows} and 0 <= j < b }}", _load("c", dtype="i32"),
              _load("t", _plus(i, j), dtype="i32"), "c"),
        _comp("w", f"[n, b, c] -> {{ w[i, j, k] : {rows} and 0 <= j < b and j <= k < c + 1 }}",
              _load("z", j, k, dtype="i32"), _plus(_plus(_load("z", j, k, dtype="i32"), b), _plus(c, k))),
    )  # fmt: skip
    split = rng.choice([0, 0, 3, 4])
    apart = "((p = 0 and 3o + 3 <= n) or (p = 1 and 3o + 3 > n))" if rng.random() < 0.5 else "p = 0"
    row = f"i = {split}o + u and 0 <= u < {split} and {apart}" if split else "p = 0 and o = i and u = 0"
    column = rng.choice(["q = j and v = 0", "j = 2q + v and 0 <= v < 2", "j = 3q + v and 0 <= v < 3"])
    deep = rng.choice(["x = k", "x = -k"])
    free = rng.choice([0, 1, 9])
    full: dict[str, AstOption] = {"u": "isolate", "v": "isolate"} if rng.random() < 0.5 else {}
    outer = {"u": full["u"]} if full else None
    nests = (
        nest_of("b", "o u", f"[n] -> {{ b[i] -> [p, o, 0, u, 0] : {row} }}", {}, outer),
        nest_of("free", "o u", f"[n] -> {{ free[i] -> [p, o, 0, u, {free}] : {row} }}", {}, outer),
        nest_of("s", "o u q v", f"[n] -> {{ s[i, j] -> [p, o, 0, u, 2, q, 0, v, 0] : {row} and {column} }}", {}, full),
        nest_of("c", "o u q v", f"[n] -> {{ c[i, j] -> [p, o, 0, u, 10, q, 0, v, 0] : {row} and {column} }}", {}, full),
        nest_of("w", "o u q v x", f"[n] -> {{ w[i, j, k] -> [p, o, 0, u, 10, q, 0, v, 1, x, 0] : {row} and {column} "
              f"and {deep} }}", {}, full),
    )  # fmt: skip
    context = rng.choice([None, None, isl.Set("[n, b, c] -> { : n > 0 and b >= 0 and c >= 0 }")])
    func = Func("nested", (ScalarParam("n", "i32"), *bufs), (*bufs, *scalars), comps, _LOC, (), context)
    return Scheduled(func, nests)


@pytest.mark.parametrize("seed", range(24))
def test_values_at_two_depths(seed: int) -> None:
    scheduled = _nested(random.Random(seed))
    tree = scan(scheduled)
    comps = {c.name: c for c in scheduled.func.comps}
    position = scheduled.nest("free").relation.range().dim_max_val(4).to_python()
    table = np.random.default_rng(seed).integers(0, 9, 40).astype(np.int32)
    for n in (1, 5, 11):
        y, z = np.ones(40, np.int32), np.zeros((40, 40), np.int32)
        for i in range(n):
            has = not comps["b"].domain.intersect(isl.Set(f"[n] -> {{ b[{i}] : n = {n} }}")).is_empty()
            if position < 2:
                y[i] = i + n
            for j in range(table[i] if has else 0):
                y[i] += table[j]
            if position >= 2:
                y[i] = i + n
            for j in range(table[i] if has else 0):
                for k in range(j, table[i + j] + 1):
                    z[j, k] += table[i] + table[i + j] + k
        inputs: dict[str, Any] = {"n": n, "t": table, "y": np.ones(40, np.int32), "z": np.zeros((40, 40), np.int32)}
        found = run_tree(scheduled.func, tree, inputs)
        np.testing.assert_array_equal(found["y"], y)
        np.testing.assert_array_equal(found["z"], z)


def test_a_value_must_be_known_where_it_bounds_a_loop() -> None:
    scheduled = _sums_in_order(_segment_sum())
    early = nest_of("y", "i0 i1", "{ y[i, j] -> [1, i, -1, j, 0] }")
    with pytest.raises(PlantError, match="y depends on 'b0', which isn't known where it runs"):
        scan(scheduled.with_nest(early))
    elsewhere = nest_of("y", "i0 i1", "{ y[i, j] -> [2, i, 0, j, 0] }")
    with pytest.raises(PlantError, match="y depends on 'b0', which isn't known where it runs"):
        scan(scheduled.with_nest(elsewhere))


def test_an_array_lives_in_the_iterations_that_allocate_it() -> None:
    """Allocation, uses and neighbours with other domains: one test of the iterator, around all of its block."""
    bufs = (_buf("a", "i32", 40), _buf("t", "i32", 1, local=True))
    first, there = Val(0, "i32"), "5 <= i < 20"
    comps = (
        _comp("p", f"{{ p[i] : {there} }}", _load("t", first, dtype="i32"), Iter("i")),
        _comp("q", f"{{ q[i] : {there} }}", _load("a", Iter("i"), dtype="i32"), _load("t", first, dtype="i32")),
        _comp("r", "{ r[i] : 0 <= i < 30 }", _load("a", _plus(Iter("i"), _ONE), dtype="i32"), Iter("i")),
    )
    func = Func("f", bufs[:1], bufs, comps, _LOC, (_effect("z", f"{{ z[i] : {there} }}", Alloc("t")),))
    nests = [nest_of(name, "i", f"{{ {name}[i] -> [0, i, {k}] }}") for k, name in enumerate("zprq")]
    assert print_tree(scan(Scheduled(func, tuple(nests)))) == lines_of("""
        for (i = 0; i < 30; i++) {
          if (i >= 5 && i <= 19) {
            alloc(t);
            t[0] = i;
            a[i + 1] = i;
            a[i] = t[0];
          }
          if (i < 5 || i > 19)
            a[i + 1] = i;
        }
        """)


def test_what_is_known_of_a_value_makes_nothing_depend_on_it() -> None:
    """Verbs may leave a schedule's relations with all of the context in them."""
    func = _segment_sum(_POSITIVE % "")
    plain = _sums_in_order(func)
    assert func.context is not None
    nests = tuple(replace(n, relation=n.relation.intersect_params(func.context)) for n in plain.nests)
    assert scan(Scheduled(func, nests)) == scan(plain)


# --- running ------------------------------------------------------------------------------------------------------


def test_parallel_loops_in_any_order() -> None:
    buf = _buf("a", "i32", 9)
    comp = _comp("s", "{ s[i] : 0 <= i < 8 }", _load("a", _plus(Iter("i"), _ONE), dtype="i32"),
                 _plus(_load("a", Iter("i"), dtype="i32"), _ONE))  # fmt: skip
    func = Func("f", (buf,), (buf,), (comp,), _LOC)
    leaf = scan(Scheduled(func, (nest_of("s", "i", "{ s[i] -> [0, i, 0] }"),)))
    assert isinstance(leaf, For)
    tagged = For(leaf.iterator, leaf.lower, leaf.upper, leaf.step, leaf.body, "parallel")
    inputs = {"a": np.zeros(9, np.int32)}
    assert run_tree(func, tagged, inputs)["a"].tolist() == list(range(9))
    assert run_tree(func, tagged, inputs, order="reversed")["a"].tolist() == [0] + [1] * 8
    shuffled = run_tree(func, tagged, inputs, order="random")["a"]
    assert shuffled.tolist() == run_tree(func, tagged, inputs, order="random")["a"].tolist() != list(range(9))
    assert run_tree(func, leaf, inputs, order="reversed")["a"].tolist() == list(range(9))


def _run_actions(*actions: Action | Leaf, source: tuple[int, ...] = (4,)) -> dict[str, Any]:
    bufs = (_buf("a", "f32", 4), _buf("b", "f32", *source), _buf("t", "f32", 4, local=True))
    func = Func("f", bufs[:2], bufs, (), _LOC)
    tree = Seq(tuple(x if isinstance(x, Leaf) else Do(x, _LOC) for x in actions))
    given = {"a": np.arange(4, dtype=np.float32), "b": np.zeros(source, np.float32)}
    return run_tree(func, tree, given)


def test_memory_actions() -> None:
    found = _run_actions(Alloc("t"), Memcpy("t", "a"), Memcpy("b", "t"), Free("t"))
    assert found["b"].tolist() == [0, 1, 2, 3]
    fresh = _run_actions(Alloc("t"), Memcpy("t", "a"), Alloc("t"), Memcpy("b", "t"))
    assert np.isnan(fresh["b"]).all()
    with pytest.raises(PlantError, match="'t' is accessed while it isn't allocated"):
        _run_actions(Alloc("t"), Free("t"), Memcpy("b", "t"))
    with pytest.raises(PlantError, match=r"'a' of shape \(4,\) is copied to 'b' of shape \(5,\)"):
        _run_actions(Memcpy("b", "a"), source=(5,))
    with pytest.raises(PlantError, match="text of the target language"):
        _run_actions(Verbatim("barrier()"))
    wild = _comp("s", "{ s[i] }", _load("a", Val(4, "i32")), Val(1.0, "f32"))
    with pytest.raises(PlantError, match="element 4 of 'a', which has 4 there"):
        _run_actions(Leaf(wild, (), Tile(()), wild.target, wild.value))
    with pytest.raises(PlantError, match="is a tile"):
        _run_actions(Leaf(wild, (), Tile(())))


def test_computations_are_resolved_first() -> None:
    bufs = (_buf("a", "f32", 8), _buf("b", "f32", 8))
    first = _comp(
        "p", "{ p[i] : 0 <= i < 8 }", _load("a", Binary("sub", Val(7, "i32"), Iter("i"), "i32")), Val(2.0, "f32")
    )
    second = _comp("q", "{ q[i] : 0 <= i < 8 }", _load("b", Iter("i")), Access("p", (Iter("i"),), "f32"))
    func = Func("f", bufs, bufs, (first, second), _LOC)
    nests = (nest_of("p", "i", "{ p[i] -> [0, i, 0] }"), nest_of("q", "i", "{ q[i] -> [0, i, 1] }"))
    assert print_tree(scan(Scheduled(func, nests))) == lines_of("""
        for (i = 0; i < 8; i++) {
          a[7 - i] = 2.0f;
          b[i] = a[7 - i];
        }
        """)


def test_more_loops_than_python_nests() -> None:
    iters = tuple(f"i{k}" for k in range(24))
    bounds = " and ".join(f"0 <= {i} < {2 if k < 3 else 1 + (k > 21)}" for k, i in enumerate(iters))
    buf = _buf("a", "i32", 1)
    target = _load("a", Val(0, "i32"), dtype="i32")
    comp = _comp("s", f"{{ s[{', '.join(iters)}] : {bounds} }}", target, _plus(target, _plus(Iter("i0"), _ONE)))
    func = Func("f", (buf,), (buf,), (comp,), _LOC)
    tree = scan(
        Scheduled(
            func,
            (
                nest_of(
                    "s", " ".join(iters), f"{{ s[{', '.join(iters)}] -> [{', '.join(f'0, {i}' for i in iters)}, 0] }}"
                ),
            ),
        )
    )
    for iterator in iters[3:-2]:
        tree = For(f"x{iterator}", Val(0, "i32"), _ONE, 1, tree)
    assert run_tree(func, tree, {"a": np.zeros(1, np.int32)})["a"].tolist() == [3 * 2**4]
