"""The memory verbs: their texts, that results stay as they are, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.func import Access, Binary, Buf, Comp, Expr, Func, Iter, Load, Param, Val
from plant_core.ir.loop_tree import Do, For, If, Seq, Tree
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.normalize.bind_storage import resolve
from plant_core.scan import scan
from plant_core.schedule import memory
from plant_core.schedule.legality import check
from plant_core.schedule.memory.insert_copies import SYNC
from plant_core.support.location import IllegalSchedule, Loc, PlantError
from tests.support.plant_builder import Builder, matmul


def text(s: Scheduled) -> str:
    return print_tree(scan(s)).strip()


def without_barriers(tree: Tree) -> Tree:
    match tree:
        case For(body=body):
            return replace(tree, body=without_barriers(body))
        case If(then=then):
            return replace(tree, then=without_barriers(then))
        case Seq(children=children):
            return Seq(tuple(without_barriers(c) for c in children))
        case Do(action=action) if action == SYNC:
            return Seq(())
        case _:
            return tree


def inputs(func: Func) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {b.name: rng.integers(-5, 6, b.extents).astype(np.float32) for b in func.bufs if b.kind == "param"}


def agree(func: Func, s: Scheduled, values: dict[str, object] | None = None) -> None:
    """The scheduled program, run as a tree and from its statements' own schedules, gives what `func` does."""
    given = values or inputs(func)
    check(s)
    wanted = evaluate(func, given)
    ran = run_tree(s.func, without_barriers(scan(s)), given)
    for name, array in wanted.items():
        assert np.array_equal(array, ran[name]), name


def stencil(*offsets: int, n: int = 20) -> Func:
    terms = " + ".join(f"c[i + {k}]" for k in offsets)
    return Builder({"y": (n,), "c": (n + 40,)}, const=("c",)).comp(
        "i", f"0 <= i < {n}", [0, "i", 0], f"y[i] = {terms}"
    ).func()  # fmt: skip


def apart(n: int = 20, m: int = 17, k: int = 9) -> Program:
    """Matrix multiplication, the initialisation in a nest of its own."""
    p = Program(matmul(n, m, k), reassoc=True)
    p["S1"].after("S0", None)
    return p


# --- cache_identity -----------------------------------------------------------------------------------------------


def test_far_translates_take_as_many_elements_as_there_are() -> None:
    func = stencil(0, 1, 6, 7)
    s = memory.cache_identity(as_written(func), "S0", "c", "i")
    assert s.func.buf("cache_c").shape == (4,)
    assert text(s) == (
        "for (i = 0; i < 20; i++) {\n"
        "  for (x0 = 0; x0 < 2; x0++)\n"
        "    cache_c[x0] = c[i + x0];\n"
        "  for (x0 = 0; x0 < 2; x0++)\n"
        "    cache_c[x0 + 2] = c[i + x0 + 6];\n"
        "  y[i] = cache_c[0] + cache_c[1] + cache_c[2] + cache_c[3];\n"
        "}"
    )
    agree(func, s)


def test_tiles_are_read_updated_and_stored_back_without_reading_outside() -> None:
    p = apart()
    p["S1"].tile("i", "j", 8, 8)
    s = memory.cache_identity(p.scheduled, "S1", "C", "j_o")
    s = memory.cache_identity(s, "S1", "B", "j_o", into="panel")
    assert s.func.buf("cache_C").shape == (8, 8)
    assert s.func.buf("panel").shape == (9, 8)
    assert s.func.buf("panel").alloc_at == ("S1", "j_o")
    assert text(s).split("\n", 3)[3] == (
        "for (i_o = 0; i_o < 3; i_o++)\n"
        "  for (j_o = 0; j_o < 3; j_o++) {\n"
        "    for (x0 = 0; x0 < min(20 - 8 * i_o, 8); x0++)\n"
        "      for (x1 = 0; x1 < min(17 - 8 * j_o, 8); x1++)\n"
        "        cache_C[x0][x1] = C[8 * i_o + x0][8 * j_o + x1];\n"
        "    for (x0 = 0; x0 < 9; x0++)\n"
        "      for (x1 = 0; x1 < min(17 - 8 * j_o, 8); x1++)\n"
        "        panel[x0][x1] = B[x0][8 * j_o + x1];\n"
        "    for (i_i = 0; i_i < min(20 - 8 * i_o, 8); i_i++)\n"
        "      for (j_i = 0; j_i < min(17 - 8 * j_o, 8); j_i++)\n"
        "        for (k = 0; k < 9; k++)\n"
        "          cache_C[i_i][j_i] = cache_C[i_i][j_i] + A[8 * i_o + i_i][k] * panel[k][j_i];\n"
        "    for (x0 = 0; x0 < min(20 - 8 * i_o, 8); x0++)\n"
        "      for (x1 = 0; x1 < min(17 - 8 * j_o, 8); x1++)\n"
        "        C[8 * i_o + x0][8 * j_o + x1] = cache_C[x0][x1];\n"
        "  }"
    )
    agree(matmul(20, 17, 9), s)


def test_loop_verbs_still_apply_to_copies_and_to_the_statement() -> None:
    p = apart()
    p["S1"].tile("i", "j", 8, 8)
    q = Program(memory.cache_identity(p.scheduled, "S1", "B", "j_o"), reassoc=True)
    q["S1"].reorder("k", "i_i").tag("j_i", "vectorize")
    q["load_cache_B"].tag("x1", "vectorize").split("x0", 4)
    agree(matmul(20, 17, 9), q.scheduled)


@pytest.mark.parametrize(("step", "inner"), [(2, 5), (3, 4), (7, 2)])
def test_strided_accesses_are_packed_densely(step: int, inner: int) -> None:
    func = Builder({"y": (6,), "a": (200,)}, const=("a",)).comp(
        "i,j", f"0 <= i < 6 and 0 <= j < {inner}", [0, "i", 0, "j", 0], f"y[i] = y[i] + a[{step}*j + {step * inner}*i]"
    ).func()  # fmt: skip
    s = memory.cache_identity(as_written(func), "S0", "a", "i")
    assert s.func.buf("cache_a").shape == (inner,)
    agree(func, s)


def test_a_cache_of_a_cache() -> None:
    p = apart()
    p["S1"].tile({"i": 8, "j": 8})
    s = memory.cache_identity(p.scheduled, "S1", "B", "i_o")
    s = memory.cache_identity(s, "S1", "cache_B", "j_o", into="inner")
    assert s.func.buf("inner").shape == (9, 8)
    agree(matmul(20, 17, 9), s)


def test_symbolic_sizes_have_tiles_of_constant_size() -> None:
    func = Builder({"y": (50,), "a": (60,)}, const=("a",), params=("n",)).comp(
        "i", "0 <= i < n and n <= 50", [0, "i", 0], "y[i] = a[i] + a[i + 2]"
    ).func()  # fmt: skip
    p = Program(func)
    p["S0"].split("i", 16)
    s = memory.cache_identity(p.scheduled, "S0", "a", "i_o")
    assert s.func.buf("cache_a").shape == (18,)
    for n in (0, 1, 15, 16, 33, 50):
        agree(func, s, {**inputs(func), "n": n})
    with pytest.raises(PlantError, match="no constant bounds"):
        memory.cache_identity(as_written(_rows()), "S0", "a", "i")


def _rows() -> Func:
    return Builder({"y": (50,), "a": (50, 50)}, const=("a",), params=("n",)).comp(
        "i,j", "0 <= i < 50 and 0 <= j < n", [0, "i", 0, "j", 0], "y[i] = y[i] + a[i, j]"
    ).func()  # fmt: skip


def test_triangular_tiles() -> None:
    func = Builder({"x": (30,), "L": (30, 30)}, const=("L",)).comp(
        "i,j", "0 <= i < 30 and 0 <= j < i", [0, "i", 0, "j", 0], "x[i] = x[i] + L[i, j] * L[j, i]"
    ).func()  # fmt: skip
    p = Program(func, reassoc=True)
    p["S0"].tile("i", "j", 8, 8)
    s = memory.cache_identity(p.scheduled, "S0", "L", "j_o")
    agree(func, s)
    s = memory.cache_identity(p.scheduled, "S0", "x", "i_o")
    assert s.func.buf("cache_x").shape == (8,)
    agree(func, s)


def test_a_value_that_another_statement_writes_meanwhile_is_not_cached() -> None:
    func = (
        Builder({"y": (8,), "t": (8,)})
        .comp("i,j", "0 <= i < 4 and 0 <= j < 4", [0, "i", 0, "j", 0], "t[j] = t[j] + 1")
        .comp("i,j", "0 <= i < 4 and 0 <= j < 4", [0, "i", 0, "j", 1], "y[i] = y[i] + t[j]")
        .func()
    )
    with pytest.raises(IllegalSchedule, match=r"S0\[\d,\d\] \(line 2\) -> S1\[\d,\d\] \(line 3\)") as caught:
        memory.cache_identity(as_written(func), "S1", "t", "i")
    assert caught.value.code == "DG201" and caught.value.remedy
    agree(func, memory.cache_identity(as_written(func), "S1", "t", "j"))


def test_what_cannot_be_cached_is_told() -> None:
    s = as_written(stencil(0, 1))
    for arguments, message in (
        (("S9", "c", "i"), "no computation 'S9'"),
        (("S0", "z", "i"), "no computation 'z'"),
        (("S0", "c", "k"), "no loop 'k'"),
    ):
        with pytest.raises(PlantError, match=message) as caught:
            memory.cache_identity(s, *arguments)
        assert caught.value.code == "DG210"
    gather = Builder({"y": (5,), "c": (25,)}, const=("c",)).comp("i", "0 <= i < 5", [0, "i", 0], "y[i] = c[i]").func()
    comp = gather.comps[0]
    square = Load("c", (Binary("mul", Iter("i"), Iter("i"), "i32"),), "f32")
    gather = gather.with_comps((replace(comp, value=square),))
    with pytest.raises(PlantError, match="isn't affine"):
        memory.cache_identity(as_written(gather), "S0", "c", "i")
    with pytest.raises(PlantError, match="doesn't use"):
        memory.cache_identity(as_written(matmul(4, 4, 4)), "S0", "A", "i")


def test_only_the_values_of_one_computation() -> None:
    func = algorithm()
    i, j = Iter("i"), Iter("j")
    s = memory.store(as_written(func), "S0", "C")
    read = Binary("add", Access("S0", (i, j), "f32"), Load("C", (i, j), "f32"), "f32")
    s = replace(s, func=func_with(s.func, "S1", read), origin=None)
    cached = memory.cache_identity(s, "S1", "S0", "j")
    (load,) = [x for x in (cached.func.comp("S1").value,) if isinstance(x, Binary)]
    assert load.left == Load("cache_S0", (Val(0, "i32"), Val(0, "i32")), "f32") and load.right == read.right
    agree(resolve(s.func), cached)


def func_with(func: Func, name: str, value: Expr) -> Func:
    return func.with_comps(tuple(replace(c, value=value) if c.name == name else c for c in func.comps))


def test_a_length_known_only_further_in_is_refused() -> None:
    func = spmm()
    rows = tuple(
        replace(
            c,
            iters=("t", *c.iters),
            domain=c.domain.insert_dims(isl.dim_type.set, 0, 1).fix_val(isl.dim_type.set, 0, isl.Val(0)),
            schedule=c.schedule.insert_dims(isl.dim_type.in_, 0, 1).insert_dims(isl.dim_type.out, 0, 2),
        )
        for c in func.comps
    )
    rows = tuple(
        replace(
            c,
            domain=c.domain.set_tuple_name(c.name),
            schedule=c.schedule.set_tuple_name(isl.dim_type.in_, c.name)
            .fix_val(isl.dim_type.out, 0, isl.Val(0))
            .equate(isl.dim_type.in_, 0, isl.dim_type.out, 1),
        )
        for c in rows
    )
    with pytest.raises(PlantError, match="known only further in"):
        memory.cache_identity(as_written(func.with_comps(rows)), "Y", "val", "t")


# --- run-time parameters ------------------------------------------------------------------------------------------


def spmm() -> Func:
    """PLANT, code 3.7: `y[i, j] += val[b0 + k] * b[idx[b0 + k], j]` for the nonzeros k of row i."""
    at = Loc("spmm.py", 1)
    i, k, j = Iter("i"), Iter("k"), Iter("j")

    def ptr(offset: int) -> Load:
        return Load("ptr", (Binary("add", i, Val(offset, "i32"), "i32"),), "i32")

    def bound(name: str, offset: int, place: int) -> Comp:
        domain = isl.Set(f"{{ {name}[i] : 0 <= i < 6 }}")
        schedule = isl.Map(f"{{ {name}[i] -> [0, i, {place}, 0, 0, 0, 0] }}")
        return Comp(name, ("i",), domain, schedule, Load(name, (), "i32"), ptr(offset), at, defines=name)

    place = Binary("add", Param("b0", "i32"), k, "i32")
    y = Load("y", (i, j), "f32")
    term: Expr = Binary(
        "mul", Load("val", (place,), "f32"), Load("b", (Load("idx", (place,), "i32"), j), "f32"), "f32"
    )  # fmt: skip
    row = Comp(
        "Y",
        ("i", "k", "j"),
        isl.Set("[b0, b1] -> { Y[i, k, j] : 0 <= i < 6 and 0 <= k < b1 - b0 and 0 <= j < 5 }"),
        isl.Map("[b0, b1] -> { Y[i, k, j] -> [0, i, 2, k, 0, j, 0] }"),
        y,
        Binary("add", y, term, "f32"),
        at,
    )
    arrays = (
        Buf("ptr", "i32", (7,), "param", True),
        Buf("idx", "i32", (200,), "param", True),
        Buf("val", "f32", (200,), "param", True),
        Buf("b", "f32", (9, 5), "param", True),
        Buf("y", "f32", (6, 5), "param"),
    )
    scalars = (Buf("b0", "i32", (), "local"), Buf("b1", "i32", (), "local"))
    context = isl.Set("[b0, b1] -> { : 0 <= b0 <= b1 <= 200 }")
    comps = (bound("b0", 0, 0), bound("b1", 1, 1), row)
    return Func("spmm", arrays, (*arrays, *scalars), comps, at, context=context)


def test_a_split_loop_over_nonzeros_caches_32_of_them() -> None:
    func = spmm()
    p = Program(func)
    p["Y"].split("k", 32)
    s = memory.cache_identity(p.scheduled, "Y", "val", "k_o")
    s = memory.cache_identity(s, "Y", "idx", "k_o")
    assert s.func.buf("cache_val").shape == (32,) and s.func.buf("cache_idx").shape == (32,)
    shown = text(s)
    assert "cache_val[x0] = val[" in shown and "cache_val[k_i] * b[cache_idx[k_i]][j]" in shown
    rng = np.random.default_rng(0)
    ptr = np.array([0, 3, 3, 67, 99, 131, 190], np.int32)
    given = {
        "ptr": ptr,
        "idx": rng.integers(0, 9, 200).astype(np.int32),
        "val": rng.integers(-3, 4, 200).astype(np.float32),
        "b": rng.integers(-3, 4, (9, 5)).astype(np.float32),
        "y": rng.integers(-3, 4, (6, 5)).astype(np.float32),
    }
    ran = run_tree(s.func, scan(s), given)["y"]
    wanted = given["y"].copy()
    for i in range(6):
        for k in range(ptr[i], ptr[i + 1]):
            wanted[i] += given["val"][k] * given["b"][given["idx"][k]]
    assert np.array_equal(ran, wanted)


# --- GPU ----------------------------------------------------------------------------------------------------------


def on_gpu() -> Program:
    p = apart()
    p["S1"].tile({"i": 8, "j": 8, "k": 4}).reorder("i_o", "j_o", "k_o", "i_i", "j_i", "k_i")
    p["S1"].tag("i_o", "gpu_block_y").tag("j_o", "gpu_block_x").tag("i_i", "gpu_thread_y").tag("j_i", "gpu_thread_x")
    return p


def test_shared_memory_is_filled_by_the_blocks_threads_between_barriers() -> None:
    s = on_gpu().scheduled
    for of in ("A", "B"):
        s = memory.cache_identity(s, "S1", of, "k_o", location="gpu_shared")
    nest = s.nest("load_cache_A")
    assert nest.loops == ("i_o", "j_o", "k_o", "i_i", "j_i", "x0", "x1")
    assert nest.tag("i_i") == "gpu_thread_y" and nest.tag("j_i") == "gpu_thread_x"
    lines = [line.strip() for line in text(s).splitlines()]
    order = [line.split("[")[0].rstrip(";") for line in lines if line.startswith(("cache", "C[16", "C[8", "__sync"))]
    assert order == ["cache_A", "cache_B", "__syncthreads()", "C", "__syncthreads()"]
    func = matmul(20, 17, 9)
    given = inputs(func)
    ran = run_tree(s.func, without_barriers(scan(s)), given, order="random")
    assert np.array_equal(ran["C"], evaluate(func, given)["C"])


def test_shared_memory_inside_a_thread_loop_is_refused() -> None:
    with pytest.raises(PlantError, match="inside the thread loop") as caught:
        memory.cache_identity(on_gpu().scheduled, "S1", "A", "j_i", location="gpu_shared")
    assert caught.value.code == "DG218"


def test_transfers_surround_the_gpu_part() -> None:
    s = memory.auto_transfer(on_gpu().scheduled)
    shown = text(s).splitlines()
    copies = [k for k, line in enumerate(shown) if "memcpy" in line.lower() or "copy" in line.lower()]
    assert len(copies) == 4 and copies[-1] == len(shown) - 1
    assert {e.name for e in s.func.effects} == {"A_to_gpu", "B_to_gpu", "C_to_gpu", "C_from_gpu"}
    agree(matmul(20, 17, 9), s)


def test_nothing_is_sent_that_the_gpu_writes_wholly_and_locals_just_move() -> None:
    func = (
        Builder({"x": (8,), "t": (8,), "y": (8,)}, const=("x",), local=("t",))
        .comp("i", "0 <= i < 8", [0, "i", 0], "t[i] = x[i] + 1")
        .comp("i", "0 <= i < 8", [1, "i", 0], "y[i] = t[i] * 2")
        .func()
    )
    p = Program(func)
    p["S0"].tag("i", "gpu_thread_x")
    p["S1"].tag("i", "gpu_thread_x")
    s = memory.auto_transfer(p.scheduled)
    assert [e.name for e in s.func.effects] == ["x_to_gpu", "y_from_gpu"]
    assert s.func.buf("t").location == "gpu_global"
    agree(func, s)


def test_host_statements_between_gpu_parts_get_what_they_need() -> None:
    func = (
        Builder({"x": (8,), "y": (8,)})
        .comp("i", "0 <= i < 8", [0, "i", 0], "y[i] = x[i] + 1")
        .comp("i", "0 <= i < 4", [1, "i", 0], "y[i] = y[i + 4] * 2")
        .comp("i", "0 <= i < 8", [2, "i", 0], "x[i] = y[i] * 3")
        .func()
    )
    p = Program(func)
    p["S0"].tag("i", "gpu_thread_x")
    p["S2"].tag("i", "gpu_thread_x")
    s = memory.auto_transfer(p.scheduled)
    assert [e.name for e in s.func.effects if e.name.startswith("y")] == ["y_from_gpu", "y_to_gpu"]
    agree(func, s)


def test_host_and_gpu_statements_in_one_nest_are_refused() -> None:
    func = (
        Builder({"x": (4, 8), "y": (4, 8)})
        .comp("t,i", "0 <= t < 4 and 0 <= i < 8", [0, "t", 0, "i", 0], "y[t, i] = x[t, i] + 1")
        .comp("t,i", "0 <= t < 4 and 0 <= i < 8", [0, "t", 1, "i", 0], "x[t, i] = y[t, i] * 2")
        .func()
    )
    p = Program(func)
    p["S0"].tag("i", "gpu_thread_x")
    with pytest.raises(PlantError, match="in one loop nest") as caught:
        memory.auto_transfer(p.scheduled)
    assert caught.value.code == "DG217"


# --- cache --------------------------------------------------------------------------------------------------------

P, Q, X0, X1, JO = Iter("p"), Iter("q"), Iter("x0"), Iter("x1"), Iter("j_o")


def times(expr: Expr, factor: int) -> Expr:
    return Binary("mul", Val(factor, "i32"), expr, "i32")


def plus(a: Expr, b: Expr) -> Expr:
    return Binary("add", a, b, "i32")


def minus(a: Expr, b: Expr) -> Expr:
    return Binary("sub", a, b, "i32")


def tiled() -> Scheduled:
    p = apart()
    p["S1"].tile("i", "j", 8, 8)
    return p.scheduled


def test_a_transposed_and_padded_layout() -> None:
    s = memory.cache(
        tiled(), "S1", "B", "j_o",
        shape=(8, 9 + 1), iters={"p": 9, "q": 8}, to=(Q, P), source=(P, plus(times(JO, 8), Q)),
        use=(minus(X1, times(JO, 8)), X0), into="T", align=64,
    )  # fmt: skip
    assert s.func.buf("T").shape == (8, 10) and s.func.buf("T").align == 64
    assert "T[j_i][k]" in text(s) and "T[q][p] = B[p][8 * j_o + q]" in text(s)
    agree(matmul(20, 17, 9), s)


def test_an_interleaved_layout_for_vectors() -> None:
    lanes = Val(4, "i32")
    high, low = Binary("floordiv", Q, lanes, "i32"), Binary("mod", Q, lanes, "i32")
    s = memory.cache(
        tiled(), "S1", "B", "i_o",
        shape=(5, 9, 4), iters={"p": 9, "q": 17}, to=(high, P, low), source=(P, Q),
        use=(Binary("floordiv", X1, lanes, "i32"), X0, Binary("mod", X1, lanes, "i32")),
    )  # fmt: skip
    agree(matmul(20, 17, 9), s)


def test_a_layout_that_mixes_elements_up_is_refused() -> None:
    layouts: list[tuple[tuple[int, ...], tuple[Expr, ...], tuple[Expr, ...]]] = [
        ((9, 8), (P, Q), (X0, minus(X1, times(JO, 7)))),
        ((9, 1), (P, Val(0, "i32")), (X0, Val(0, "i32"))),
        ((9, 8), (P, Q), (Val(0, "i32"), minus(X1, times(JO, 8)))),
    ]
    for shape, to, use in layouts:
        with pytest.raises(PlantError) as caught:
            memory.cache(
                tiled(), "S1", "B", "j_o", shape=shape, iters={"p": 9, "q": 8}, to=to,
                source=(P, plus(times(JO, 8), Q)), use=use,
            )  # fmt: skip
        assert isinstance(caught.value, IllegalSchedule) or caught.value.code == "DG211"


def test_layouts_of_the_wrong_form_are_refused() -> None:
    good = {
        "shape": (9, 8), "iters": {"p": 9, "q": 8}, "to": (P, Q), "source": (P, plus(times(JO, 8), Q)),
        "use": (X0, minus(X1, times(JO, 8))),
    }  # fmt: skip
    for change, message in (
        ({"shape": (9,)}, "need 1 subscripts"),
        ({"shape": (9, 0)}, "at least 1"),
        ({"source": (P,)}, "needs 2 subscripts"),
        ({"iters": {"p": 9, "i_i": 8}}, "names"),
        ({"shape": (9, 7)}, "outside the array"),
        ({"use": (X0, Binary("mul", X1, X0, "i32"))}, "isn't affine"),
    ):
        with pytest.raises(PlantError, match=message):
            memory.cache(tiled(), "S1", "B", "j_o", **{**good, **change})  # type: ignore[arg-type]
    with pytest.raises(PlantError, match="writes 'C'"):
        memory.cache(tiled(), "S1", "C", "j_o", **good)  # type: ignore[arg-type]


# --- store --------------------------------------------------------------------------------------------------------


def algorithm() -> Func:
    """PLANT, code 3.1, before anything is stored: each computation has an array of its own."""
    func = matmul(6, 5, 4)
    init, update = func.comps
    i, j, k = (Iter(n) for n in update.iters)
    value = update.value
    assert isinstance(value, Binary)
    before = Access(update.name, (i, j, Binary("sub", k, Val(1, "i32"), "i32")), "f32")
    own = (Buf("a0", "f32", (6, 5), "local"), Buf("a1", "f32", (6, 5, 4), "local"))
    comps = (
        replace(init, target=Load("a0", (i, j), "f32")),
        replace(update, target=Load("a1", (i, j, k), "f32"), value=replace(value, left=before)),
    )
    return replace(func, bufs=(*func.bufs, *own), comps=comps)


def test_an_update_shares_the_array_of_its_start() -> None:
    s = as_written(algorithm())
    s = memory.store(s, "S0", "C")
    s = memory.store(s, "S1", "C", (Iter("i"), Iter("j")))
    assert [b.name for b in s.func.bufs if b.kind == "local"] == []
    agree(matmul(6, 5, 4), s)


def test_storage_contracts_only_as_far_as_values_allow() -> None:
    func = (
        Builder({"x": (9,), "y": (8,), "t": (9,)}, local=("t",), const=("x",))
        .comp("i", "0 <= i < 9", [0, "i", 0], "t[i] = x[i] + 1")
        .comp("i", "1 <= i < 9", [0, "i", 1], "y[i - 1] = t[i] + t[i - 1]")
        .func()
    )
    two = (Binary("mod", Iter("i"), Val(2, "i32"), "i32"),)
    s = memory.store(as_written(func), "S0", Buf("ring", "f32", (2,), "local"), two)
    assert {b.name for b in s.func.bufs} == {"x", "y", "ring"}
    agree(func, s)
    with pytest.raises(IllegalSchedule, match=r"S0\[\d\] \(line 2\) -> S1\[\d\] \(line 3\)") as caught:
        memory.store(as_written(func), "S0", Buf("one", "f32", (), "local"), ())
    assert caught.value.code == "DG201"


def test_a_scalar_expands() -> None:
    func = _scalar()
    s = memory.store(as_written(func), "S0", Buf("wide", "f32", (8,), "local"))
    p = Program(s)
    p["S1"].after("S0", None)
    p["S1"].tag("i", "parallel")
    agree(func, p.scheduled)


def _scalar() -> Func:
    return (
        Builder({"x": (8,), "y": (8,), "t": ()}, local=("t",), const=("x",))
        .comp("i", "0 <= i < 8", [0, "i", 0], "t = x[i] + 1")
        .comp("i", "0 <= i < 8", [0, "i", 1], "y[i] = t * 2")
        .func()
    )


def test_a_result_is_not_lost_or_overwritten() -> None:
    func = (
        Builder({"x": (8,), "y": (8,), "z": (8,), "t": (8,)}, const=("x",), local=("t",))
        .comp("i", "0 <= i < 8", [0, "i", 0], "y[i] = x[i] + 1")
        .comp("i", "0 <= i < 8", [1, "i", 0], "t[i] = x[i] * 2")
        .comp("i", "0 <= i < 8", [2, "i", 0], "z[i] = t[i]")
        .func()
    )
    s = as_written(func)
    with pytest.raises(IllegalSchedule, match="result y"):
        memory.store(s, "S0", Buf("u", "f32", (8,), "local"))
    with pytest.raises(IllegalSchedule, match="result y"):
        memory.store(s, "S1", "y")
    agree(func, memory.store(s, "S1", "z"))


def test_bad_places_are_told() -> None:
    s = as_written(matmul(6, 5, 4))
    i, j = Iter("i"), Iter("j")
    for buf, places, message in (
        ("nowhere", None, "no array"),
        ("C", (i,), "1 subscripts"),
        ("C", (i, Iter("z")), "isn't affine"),
        ("C", (i, Binary("mul", i, j, "i32")), "isn't affine"),
        ("C", (i, Binary("add", j, Val(1, "i32"), "i32")), "outside the array"),
        (Buf("D", "f64", (6, 5), "local"), None, "f64"),
        (Buf("C", "f32", (9, 9), "local"), None, "another array"),
    ):
        with pytest.raises(PlantError, match=message):
            memory.store(s, "S0", buf, places)  # type: ignore[arg-type]


# --- set_loc, alloc_at --------------------------------------------------------------------------------------------


def test_each_iteration_may_have_a_local_array_to_itself() -> None:
    func = (
        Builder({"x": (4, 8), "y": (4, 8), "t": (8,)}, const=("x",), local=("t",))
        .comp("i,j", "0 <= i < 4 and 0 <= j < 8", [0, "i", 0, "j", 0], "t[j] = x[i, j] + 1")
        .comp("i,j", "0 <= i < 4 and 0 <= j < 8", [0, "i", 1, "j", 0], "y[i, j] = t[7 - j]")
        .func()
    )
    s = memory.alloc_at(as_written(func), "t", "S0", "i")
    assert s.func.buf("t").alloc_at == ("S0", "i")
    agree(func, s)
    with pytest.raises(IllegalSchedule, match="outside of the loop"):
        memory.alloc_at(s, "t", "S0", "j")
    with pytest.raises(PlantError, match="comes from the caller"):
        memory.alloc_at(s, "x", "S0", "i")


def test_an_array_that_carries_values_between_iterations_outlives_them() -> None:
    func = (
        Builder({"y": (8,), "t": (9,)}, local=("t",))
        .comp("i", "0 <= i < 8", [0, "i", 0], "t[i + 1] = y[i]")
        .comp("i", "1 <= i < 8", [0, "i", 1], "y[i] = t[i]")
        .func()
    )
    with pytest.raises(IllegalSchedule, match=r"S0 \(line 2\) at \[\d\] to S1 \(line 3\) at \[\d\]") as caught:
        memory.alloc_at(as_written(func), "t", "S0", "i")
    assert caught.value.code == "DG201"


def test_memories() -> None:
    func = matmul(6, 5, 4)
    s = memory.set_loc(as_written(func), "A", "gpu_constant")
    assert s.func.buf("A").location == "gpu_constant"
    for buf, location, message in (
        ("A", "cupboard", "no memory"),
        ("A", "stack", "comes from the caller"),
        ("C", "gpu_constant", "writes 'C'"),
        ("Z", "heap", "no array"),
    ):
        with pytest.raises(PlantError, match=message):
            memory.set_loc(s, buf, location)  # type: ignore[arg-type]


def test_a_value_that_passes_between_threads_is_not_local_to_one() -> None:
    func = (
        Builder({"x": (8,), "y": (8,), "t": (8,)}, const=("x",), local=("t",))
        .comp("i", "0 <= i < 8", [0, "i", 0], "t[i] = x[i]")
        .comp("i", "0 <= i < 8", [1, "i", 0], "y[i] = t[7 - i]")
        .func()
    )
    p = Program(func)
    p["S0"].tag("i", "gpu_thread_x")
    p["S1"].tag("i", "gpu_thread_x")
    with pytest.raises(IllegalSchedule, match="each thread"):
        memory.set_loc(p.scheduled, "t", "gpu_local")
    memory.set_loc(p.scheduled, "t", "gpu_shared")


def test_an_array_of_one_iteration_is_not_used_outside_of_it() -> None:
    p = apart()
    p["S1"].tile({"i": 8, "j": 8})
    s = memory.cache_identity(p.scheduled, "S1", "B", "j_o")
    with pytest.raises(IllegalSchedule, match="load_cache_B"):
        memory.cache_identity(s, "S1", "cache_B", "i_o")


def test_storage_that_parallel_iterations_would_share_is_refused() -> None:
    p = Program(memory.store(as_written(_scalar()), "S0", Buf("wide", "f32", (8,), "local")))
    p["S0"].tag("i", "parallel")
    with pytest.raises(IllegalSchedule, match="parallel"):
        memory.store(p.scheduled, "S0", Buf("narrow", "f32", (), "local"), ())


def test_overlapped_tiles_keep_their_part_of_the_producer_to_themselves() -> None:
    func = (
        Builder({"x": (32,), "b": (32,), "y": (32,)}, const=("x",), local=("b",))
        .comp("i", "0 <= i < 30", [0, "i", 0], "b[i] = x[i] + x[i + 1] + x[i + 2]")
        .comp("i", "0 <= i < 28", [1, "i", 0], "y[i] = b[i] + b[i + 1] + b[i + 2]")
        .func()
    )
    p = Program(func)
    p["S1"].split("i", 8)
    p["S0"].compute_at("S1", "i_o")
    ten = (Binary("mod", Iter("i"), Val(10, "i32"), "i32"),)
    s = memory.store(p.scheduled, "S0", Buf("tile", "f32", (10,), "local"), ten)
    s = memory.alloc_at(s, "tile", "S1", "i_o")
    q = Program(s)
    q["S1"].tag("i_o", "parallel")
    agree(func, q.scheduled)
    with pytest.raises(IllegalSchedule):
        memory.store(
            p.scheduled, "S0", Buf("small", "f32", (9,), "local"), (Binary("mod", Iter("i"), Val(9, "i32"), "i32"),)
        )


def test_shared_memory_that_is_written_goes_back_between_barriers() -> None:
    s = memory.cache_identity(on_gpu().scheduled, "S1", "C", "k_o", location="gpu_shared")
    lines = [line.strip() for line in text(s).splitlines()]
    order = [line.split("[")[0].rstrip(";") for line in lines if line.startswith(("cache", "C[8", "__sync"))]
    sync = "__syncthreads()"
    assert order == ["cache_C", sync, "cache_C", sync, "C", sync]
    func = matmul(20, 17, 9)
    given = inputs(func)
    ran = run_tree(s.func, without_barriers(scan(s)), given, order="random")
    assert np.array_equal(ran["C"], evaluate(func, given)["C"])


def test_a_box_round_a_stencil_is_copied_by_simple_loops() -> None:
    value = "a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j]"
    func = Builder({"y": (20, 20), "a": (20, 20)}, const=("a",)).comp(
        "i,j", "1 <= i < 19 and 1 <= j < 19", [0, "i", 0, "j", 0], f"y[i, j] = {value}"
    ).func()  # fmt: skip
    p = Program(func)
    p["S0"].tile("i", "j", 8, 8)
    exact = memory.cache_identity(p.scheduled, "S0", "a", "j_o")
    loose = memory.cache_identity(p.scheduled, "S0", "a", "j_o", exact=False)
    for s in (exact, loose):
        assert s.func.buf("cache_a").shape == (10, 10)
        agree(func, s)
    corner = isl.Set("{ load_cache_a[1, 1, 0, 0] }")
    assert corner.intersect(exact.func.comp("load_cache_a").domain).is_empty()
    assert corner.is_subset(loose.func.comp("load_cache_a").domain)


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (lambda p: p["S0"].store(Buf("a b", "i32", (99,), "local")), "can't name an array"),
        (lambda p: p["S0"].store(Buf("S0", "i32", (99,), "local")), "is a parameter or statement"),
        (lambda p: p["S0"].store(Buf("k", "i32", (-3,), "local")), "neither a number from 1 on nor an expression"),
        (lambda p: p["S0"].store(None), "is no array"),
        (lambda p: p["S0"].store("y", 3), "no subscripts"),
        (lambda p: p["S0"].cache_identity("a", "i", location="moon"), "no memory 'moon'"),
        (lambda p: p["S0"].cache_identity("a", "i", into="a b"), "can't name an array"),
        (lambda p: p.alloc_at("a", "S0", "i"), "comes from the caller"),
    ],
)
def test_bad_arguments_of_memory_verbs(verb: Callable[[Program], object], message: str) -> None:
    func = Builder({"y": (99,), "a": (99,)}, dtype="i32").comp("i", "0 <= i < 9", [0, "i", 0], "y[i] = a[i]").func()
    with pytest.raises(PlantError, match=message) as caught:
        verb(Program(func))
    assert caught.value.remedy and caught.value.code


# --- several statements, and other orders of dimensions -----------------------------------------------------------


def two_readers(second: str = "0 <= i < 6") -> Func:
    return (
        Builder({"y": (6,), "z": (6,), "a": (8, 6)}, const=("a",))
        .comp("i,j", "0 <= i < 6 and 0 <= j < 8", [0, "i", 0, "j", 0], "y[i] = y[i] + a[j, i]")
        .comp("i,j", f"{second} and 0 <= j < 7", [0, "i", 1, "j", 0], "z[i] = z[i] + a[j + 1, i]")
        .func()
    )


def test_statements_that_share_a_loop_share_one_copy() -> None:
    func = two_readers()
    s = memory.cache_identity(as_written(func), ("S0", "S1"), "a", "i", order=(1, 0))
    assert s.func.buf("cache_a").shape == (1, 8)
    assert text(s) == (
        "for (i = 0; i < 6; i++) {\n"
        "  for (x0 = 0; x0 < 8; x0++)\n"
        "    cache_a[0][x0] = a[x0][i];\n"
        "  for (j = 0; j < 8; j++)\n"
        "    y[i] = y[i] + cache_a[0][j];\n"
        "  for (j = 0; j < 7; j++)\n"
        "    z[i] = z[i] + cache_a[0][j + 1];\n"
        "}"
    )
    agree(func, s)
    p = Program(func)
    p["S0", "S1"].cache_identity("a", "i")
    assert p.func.buf("cache_a").shape == (8, 1)


def test_a_statement_that_runs_in_every_iteration_owns_the_copy() -> None:
    func = two_readers(second="2 <= i < 4")
    for names in (("S0", "S1"), ("S1", "S0")):
        s = memory.cache_identity(as_written(func), names, "a", "i")
        assert s.func.buf("cache_a").alloc_at == ("S0", "i")
        agree(func, s)


def test_a_copy_that_one_statement_writes_and_another_reads() -> None:
    func = (
        Builder({"x": (8, 6), "y": (6,)})
        .comp("i,j", "0 <= i < 6 and 0 <= j < 8", [0, "i", 0, "j", 0], "x[j, i] = x[j, i] + x[j, i]")
        .comp("i,j", "0 <= i < 6 and 0 <= j < 8", [0, "i", 1, "j", 0], "y[i] = y[i] + x[j, i]")
        .func()
    )
    s = memory.cache_identity(as_written(func), ("S0", "S1"), "x", "i", order=(1, 0))
    assert [n.name for n in s.nests] == ["S0", "S1", "load_cache_x", "store_cache_x"]
    agree(func, s)
    with pytest.raises(IllegalSchedule, match="needs the value"):
        memory.cache_identity(as_written(pipeline_of_two()), "S0", "x", "t")


def pipeline_of_two() -> Func:
    """S1 reads what S0 writes in the same iteration of t."""
    return (
        Builder({"x": (8,), "y": (8,)})
        .comp("t,j", "0 <= t < 3 and 0 <= j < 8", [0, "t", 0, "j", 0], "x[j] = x[j] + y[j]")
        .comp("t,j", "0 <= t < 3 and 0 <= j < 8", [0, "t", 0, "j", 1], "y[j] = y[j] + x[j]")
        .func()
    )


def test_pieces_in_another_order() -> None:
    func = Builder({"y": (6,), "a": (40, 6)}, const=("a",)).comp(
        "i,j", "0 <= i < 6 and 0 <= j < 4", [0, "i", 0, "j", 0], "y[i] = y[i] + a[j, i] * a[j + 20, i]"
    ).func()  # fmt: skip
    s = memory.cache_identity(as_written(func), "S0", "a", "i", order=(1, 0))
    assert s.func.buf("cache_a").shape in ((1, 8), (2, 4))
    agree(func, s)


def test_several_statements_that_cannot_share_a_copy() -> None:
    s = as_written(two_readers())
    with pytest.raises(PlantError, match="is no order of 2 dimensions"):
        memory.cache_identity(s, "S0", "a", "i", order=(0, 0))
    with pytest.raises(PlantError, match="doesn't name statements, each once"):
        memory.cache_identity(s, ("S0", "S0"), "a", "i")
    with pytest.raises(PlantError, match="isn't in the loop 'j' of S0"):
        memory.cache_identity(s, ("S0", "S1"), "a", "j")
    apart_in_time = as_written(two_readers(second="6 <= i < 6 + 0"))
    with pytest.raises(PlantError, match="never runs"):
        memory.cache_identity(apart_in_time, ("S0", "S1"), "a", "i")
