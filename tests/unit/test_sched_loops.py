"""Schedules of known loops: intervals, addresses, loop shapes, reports, and what is said when nothing fits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from dspgen.asmir.ir.function import Function, Instr, Loop, Mem, MemRef, Reg, Stream, VReg
from dspgen.driver.pipeline import compile_file
from dspgen.emit.asm import loop_block
from dspgen.emit.text import print_lines
from dspgen.errors import NoSchedule
from dspgen.options import Options
from dspgen.sched.graph.dependence_graph import overlap_distance
from dspgen.sched.ir.packets import LoopReport, Method, Packet, Scheduled
from dspgen.sched.loops import attempts
from dspgen.sched.loops import loop_body as prepared
from dspgen.sched.loops import loop_plans as plans
from dspgen.sched.machine.operations import make_op
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.modulo import GAVE_UP
from dspgen.sched.scheduler import schedule
from dspgen.sched.straight.block_packing import fit_block
from dspgen.search.final_schedule import outdone
from dspgen.sim.run import simulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.sched_programs import Writer

TARGET = load_target("ft_m7002")
METHODS: tuple[Method, ...] = ("dp", "list", "order")


def inputs(target: Target, *names: str) -> tuple[tuple[VReg, str], ...]:
    """Pointer arguments where the calling convention puts them."""
    pairs = target.register_class(target.abi.pointer_class)
    single = target.register_class(pairs.pair_of or pairs.name).names
    found = []
    for name, first in zip(names, target.abi.arguments, strict=False):
        place = pairs.names[single.index(first) // 2] if pairs.pair_of else first
        found.append((VReg(name, pairs.name), place))
    return tuple(found)


def matrix_product(target: Target, rows: int, vectors: int, depth: int, size: int = 4) -> Function:
    """C = A * B for one tile of `rows` by `vectors` vectors of floats of `size` bytes, accumulators in registers."""
    word, real = f"i{8 * size}", f"f{8 * size}"
    w = Writer(target)
    arguments = inputs(target, "a", "b", "c")
    a, b, c = (r for r, _ in arguments)
    width = size * target.lanes
    row = vectors * width
    starts = [VReg(f"a{r}", w.address["scalar"]) for r in range(rows)]
    for r, start in enumerate(starts):
        pointer(w, start, a, r * depth * size)
    from_b = VReg("from_b", w.address["vector"])
    pointer(w, from_b, b, 0)
    sums = [[VReg(f"c{r}.{v}", w.vector) for v in range(vectors)] for r in range(rows)]
    for r in range(rows):
        for v in range(vectors):
            w.constant(Reg(sums[r][v]), 0)
    before, w.items = w.items, []
    columns = [VReg(f"b{v}", w.vector) for v in range(vectors)]
    for v, column in enumerate(columns):
        reference = MemRef("b", v * width, (("k", row),), size, target.lanes, size)
        w.memory("vld", word, Reg(column), Mem(from_b, v * width, reference), (1, 0))
    for r in range(rows):
        scalar, vector = VReg(f"x{r}", w.scalar), VReg(f"y{r}", w.vector)
        reference = MemRef("a", r * depth * size, (("k", size),), size, 1, size)
        w.memory("ld", word, Reg(scalar), Mem(starts[r], 0, reference))
        w.op("bcast", word, Reg(vector), Reg(scalar))
        for v in range(vectors):
            w.op("mac", real, Reg(sums[r][v]), Reg(vector), Reg(columns[v]), Reg(sums[r][v]))
    streams = tuple(Stream(s, size, "scalar") for s in starts) + (Stream(from_b, row, "vector"),)
    loop = Loop("product_k", "k", 1, depth, streams, tuple(w.items), depth)
    w.items = [*before, loop]
    to_c = VReg("to_c", w.address["vector"])
    pointer(w, to_c, c, 0)
    for r in range(rows):
        for v in range(vectors):
            at = r * row + v * width
            w.memory("vst", word, Reg(sums[r][v]), Mem(to_c, at, MemRef("c", at, (), size, target.lanes, size)), (1, 0))
    return Function("product", arguments, tuple(w.items))


def pointer(w: Writer, register: VReg, base: VReg, offset: int) -> None:
    """An address register at `offset` bytes past a pointer argument."""
    w.names = getattr(w, "names", 0) + 1
    pair, amount = VReg(f"p{w.names}", base.cls), VReg(f"o{w.names}", w.scalar)
    w.constant(Reg(amount), offset)
    if base.cls == w.scalar:
        w.op("add", "i64", Reg(pair), Reg(base), Reg(amount))
    else:
        w.op("add", "i32", Reg(pair, "lo"), Reg(base, "lo"), Reg(amount))
        w.op("mov", "i32", Reg(pair, "hi"), Reg(base, "hi"))
    w.pointer(Reg(register), Reg(pair))


def report(scheduled: Scheduled, label: str) -> LoopReport:
    return next(r for r in scheduled.loops if r.label == label)


def run_product(
    scheduled: Scheduled, target: Target, rows: int, columns: int, depth: int, kind: type = np.float32
) -> int:
    random = np.random.default_rng(5)
    a = random.integers(-8, 8, (rows, depth)).astype(kind)
    b = random.integers(-8, 8, (depth, columns)).astype(kind)
    c = np.zeros((rows, columns), kind)
    text = ".global product\nproduct:\n" + print_lines(scheduled.lines, target)
    result = simulate(text, target, function="product", arguments=[("a", a), ("b", b), ("c", c)], engine="python")
    np.testing.assert_array_equal(result.outputs["c"].reshape(c.shape), a @ b)
    return result.cycles


def test_long_iterations_are_not_overlapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """And still right: loops that need more registers than there are grow to thousands of loads and stores."""
    monkeypatch.setattr(plans, "_MOST_OVERLAPPED", 4)
    scheduled = schedule(matrix_product(TARGET, 3, 4, 64), TARGET)
    found = report(scheduled, "product_k")
    assert not found.pipelined and "not overlapped" in found.tried[-1][1]
    run_product(scheduled, TARGET, 3, 4 * TARGET.lanes, 64)


@pytest.mark.parametrize(("rows", "vectors", "interval"), [(9, 4, 12), (6, 6, 12), (3, 4, 6), (1, 2, 6), (8, 3, 8)])
def test_matrix_product_reaches_its_bound(rows: int, vectors: int, interval: int) -> None:
    scheduled = schedule(matrix_product(TARGET, rows, vectors, 64), TARGET)
    found = report(scheduled, "product_k")
    assert found.pipelined
    assert found.ii == interval == max(found.res_mii, found.rec_mii)
    cycles = run_product(scheduled, TARGET, rows, vectors * TARGET.lanes, 64)
    assert cycles == scheduled.cycles


@pytest.mark.parametrize("depth", [8, 32])
def test_six_by_forty_eight_takes_no_longer_than_by_hand(depth: int) -> None:
    """Yu et al.'s figure for hand-written code is 14 + 6 K + 12 cycles for the loop with its prolog and epilog; here
    addresses, stores and the return are within it."""
    scheduled = schedule(matrix_product(TARGET, 6, 3, depth), TARGET)
    assert report(scheduled, "product_k").ii == 6
    assert run_product(scheduled, TARGET, 6, 3 * TARGET.lanes, depth) == scheduled.cycles
    assert scheduled.cycles is not None and scheduled.cycles <= 14 + 6 * depth + 12


@pytest.mark.parametrize("depth", [8, 32])
def test_six_by_forty_eight_doubles(depth: int) -> None:
    """The same on the second generation: 36 multiply-adds in 12 cycles, which is two steps of k."""
    target = load_target("ft_mt3000")
    scheduled = schedule(matrix_product(target, 6, 3, depth, 8), target)
    assert report(scheduled, "product_k").ii == 6
    assert run_product(scheduled, target, 6, 48, depth, np.float64) == scheduled.cycles
    assert scheduled.cycles is not None and scheduled.cycles <= 14 + 6 * depth + 12


@pytest.mark.slow
def test_six_by_forty_eight_doubles_from_c(tmp_path: Path) -> None:
    file = tmp_path / "product.c"
    file.write_text(
        "void product(double c[6][48], const double a[6][32], const double b[32][48]) {\n#pragma scop\n"
        "    for (int i = 0; i < 6; i++)\n        for (int j = 0; j < 48; j++) {\n            c[i][j] = 0;\n"
        "            for (int k = 0; k < 32; k++) c[i][j] += a[i][k] * b[k][j];\n        }\n#pragma endscop\n}\n"
    )
    scheduled = compile_file(str(file), load_target("ft_mt3000"), Options(data="onchip")).scheduled
    assert scheduled.cycles is not None and scheduled.cycles <= 14 + 6 * 32 + 12


def test_packets_in_order_are_right_and_slower() -> None:
    found = {}
    for method in METHODS:
        scheduled = schedule(matrix_product(TARGET, 2, 2, 16), TARGET, method=method)
        found[method] = run_product(scheduled, TARGET, 2, 2 * TARGET.lanes, 16)
        assert found[method] == scheduled.cycles
    assert found["dp"] <= found["list"] < found["order"]


def test_kernel_keeps_every_multiplier_busy() -> None:
    scheduled = schedule(matrix_product(TARGET, 9, 4, 64), TARGET)
    start = next(k for k, line in enumerate(scheduled.lines) if getattr(line, "name", "") == "product_k")
    kernel = [line for line in scheduled.lines[start + 1 : start + 13] if isinstance(line, Packet)]
    macs = [
        sum("mac" == m.instruction.semantics[0].value.op for m in p.members if m.instruction.semantics) for p in kernel
    ]
    assert macs == [3] * 12


@pytest.mark.parametrize("depth", range(1, 12))
def test_every_short_trip_count(depth: int) -> None:
    scheduled = schedule(matrix_product(TARGET, 2, 2, depth), TARGET)
    assert run_product(scheduled, TARGET, 2, 2 * TARGET.lanes, depth) == scheduled.cycles


def powers(trip: int) -> Function:
    """a[i] = a[i] ** 5, a vector in each iteration."""
    w = Writer(TARGET)
    arguments = inputs(TARGET, "a")
    base = VReg("base", w.address["vector"])
    pointer(w, base, arguments[0][0], 0)
    before, w.items = w.items, []
    width = 4 * TARGET.lanes
    source, result = VReg("x", w.vector), VReg("y", w.vector)
    w.memory("vld", "i32", Reg(source), Mem(base, 0, MemRef("a", 0, (("i", width),), 4, TARGET.lanes, 4)), (1, 0))
    w.op("mul", "f32", Reg(result), Reg(source), Reg(source))
    for _ in range(3):
        w.op("mul", "f32", Reg(result), Reg(result), Reg(source))
    w.memory("vst", "i32", Reg(result), Mem(base, 0, MemRef("a", 0, (("i", width),), 4, TARGET.lanes, 4)), (1, 0))
    loop = Loop("powers_i", "i", 1, trip, (Stream(base, width, "vector"),), tuple(w.items), trip)
    return Function("powers", arguments, (*before, loop))


def far_stores(trip: int, stores: int) -> Function:
    """Rows of three arrays, far apart: each vector of a row comes of the one before it, and rows of each other."""
    w = Writer(TARGET)
    arguments = inputs(TARGET, "a", "b", "c")
    width = 4 * TARGET.lanes
    row = 4 * stores * width
    factor, carried, value = (VReg(n, w.vector) for n in ("factor", "carried", "value"))
    w.constant(Reg(factor), 3)
    w.constant(Reg(carried), 1)
    bases = [VReg(f"from_{p.name}", w.address["vector"]) for p, _ in arguments]
    for (argument, _), base in zip(arguments, bases, strict=True):
        pointer(w, base, argument, 0)
    before, w.items = w.items, []
    for _ in range(3):
        w.op("mul", "i32", Reg(carried), Reg(carried), Reg(factor))
    w.op("mov", "i32", Reg(value), Reg(carried))
    for k in range(stores):
        w.op("mul", "i32", Reg(value), Reg(value), Reg(factor))
        for (argument, _), base in zip(arguments, bases, strict=True):
            access = MemRef(argument.name, k * width, (("i", row),), 4, TARGET.lanes, 4)
            w.memory("vst", "i32", Reg(value), Mem(base, k * width, access), (1, 0))
    streams = tuple(Stream(base, row, "vector") for base in bases)
    loop = Loop("rows_i", "i", 1, trip, streams, tuple(w.items), trip)
    return Function("rows", arguments, (*before, loop))


@pytest.mark.parametrize("trip", [14, 21])
def test_streams_too_scattered_are_advanced_by_additions(trip: int) -> None:
    """Each store is in another stage than the one before it, too far from there for one register that a store
    advances; and there are not registers enough for all of them."""
    scheduled = schedule(far_stores(trip, 8), TARGET)
    found = report(scheduled, "rows_i")
    assert found.pipelined and found.ii == found.least
    lanes = TARGET.lanes
    arrays = [(name, np.zeros(trip * 32 * lanes, np.int32)) for name in "abc"]
    text = ".global rows\nrows:\n" + print_lines(scheduled.lines, TARGET)
    result = simulate(text, TARGET, function="rows", arguments=arrays, engine="python")
    for name, array in arrays:
        for i in range(trip):
            for k in range(8):
                start = (i * 32 + k) * lanes
                array[start : start + lanes] = np.array(3 ** (3 * (i + 1) + k + 1) & 0xFFFFFFFF, np.uint32).view(
                    np.int32
                )
        np.testing.assert_array_equal(result.outputs[name], array)


def test_addresses_that_are_loaded_are_made_just_before_they_are_read(tmp_path: Path) -> None:
    """Made as soon as they can be, 32 of them wait in 7 registers."""
    file = tmp_path / "gather.c"
    file.write_text(
        "void gather(const float x[256], const float y[256], const int at[256], float u[256], float v[256]) {\n"
        "#pragma scop\n    for (int i = 0; i < 256; i++) {\n        u[i] = x[at[i]];\n        v[i] = y[at[i]];\n    }\n"
        "#pragma endscop\n}\n"
    )
    scheduled = compile_file(str(file), TARGET, Options(data="onchip", tile="one")).scheduled
    assert all(loop.pipelined and loop.ii == loop.least for loop in scheduled.loops)
    assert scheduled.cycles is not None and scheduled.cycles < 256 * 80 / 32 + 70


def test_fractional_bound_unrolls() -> None:
    """Four multiplications on three units take 4/3 cycles an iteration."""
    found = report(schedule(powers(96), TARGET), "powers_i")
    assert (found.unroll, found.ii) == (3, 4)


@pytest.mark.parametrize("trip", [2, 3, 5, 8])
def test_fewer_iterations_than_stages(trip: int) -> None:
    """All of them are under way before the first one ends: no cycle of the kernel has all stages busy."""
    with ExitStack() as stack:
        stack.enter_context(patch("dspgen.sched.loops.loop_plans._MOST_FLAT", 0))
        stack.enter_context(patch("dspgen.sched.scheduler.flatten_short_loops", lambda body, *_: body))
        scheduled = schedule(powers(trip), TARGET)
    found = report(scheduled, "powers_i")
    assert found.pipelined and found.trip is not None and found.stages > found.trip
    assert found.ii == found.least or any(
        ii == found.least and "the whole loop is quicker" in why for ii, why in found.tried
    )
    values = np.linspace(-2, 2, trip * TARGET.lanes, dtype=np.float32)
    text = ".global powers\npowers:\n" + print_lines(scheduled.lines, TARGET)
    result = simulate(text, TARGET, function="powers", arguments=[("a", values.copy())], engine="python")
    expected = values.copy()
    for _ in range(4):
        expected *= values
    np.testing.assert_allclose(result.outputs["a"], expected, rtol=1e-6)
    assert result.cycles == scheduled.cycles


def test_rows_far_apart_share_an_address_register() -> None:
    """Nine rows whose distance is beyond an immediate offset, with fewer address registers than rows."""
    depth = 300
    scheduled = schedule(matrix_product(TARGET, 9, 4, depth), TARGET)
    assert report(scheduled, "product_k").ii == 12
    assert run_product(scheduled, TARGET, 9, 4 * TARGET.lanes, depth) == scheduled.cycles


def test_unpipelined_on_request() -> None:
    scheduled = schedule(matrix_product(TARGET, 2, 2, 16), TARGET, pipeline=False)
    assert not report(scheduled, "product_k").pipelined
    assert run_product(scheduled, TARGET, 2, 2 * TARGET.lanes, 16) == scheduled.cycles


def test_too_few_registers_names_the_loop() -> None:
    with pytest.raises(NoSchedule) as caught:
        schedule(matrix_product(TARGET, 13, 5, 64), TARGET)
    problem = caught.value.problems[0]
    assert problem.code == "DG303"
    assert "registers of class" in problem.message


def test_no_branch_in_the_machine() -> None:
    kept = tuple(i for i in TARGET.instructions if not any(s.value.op == "branch" for s in i.semantics))
    with pytest.raises(NoSchedule) as caught:
        schedule(Function("f", (), ()), replace(TARGET, instructions=kept))
    assert caught.value.problems[0].code == "DG302"


def test_empty_function_only_returns() -> None:
    scheduled = schedule(Function("f", (), ()), TARGET)
    assert scheduled.cycles == 1 + TARGET.pipeline.branch_delay
    packets = [line for line in scheduled.lines if isinstance(line, Packet)]
    assert len(packets) == 1 and len(packets[0].members) == 1


def test_ordered_instructions_keep_their_order() -> None:
    w = Writer(TARGET)
    for k in range(4):
        w.op("mul", "i32", Reg(VReg(f"x{k}", w.scalar)), Reg(VReg("y", w.scalar)), Reg(VReg("y", w.scalar)))
    items = tuple(replace(i, ordered=True) for i in w.items if isinstance(i, Instr))
    y = VReg("y", w.scalar)
    function = Function("f", ((y, TARGET.abi.arguments[0]),), items)
    scheduled = schedule(function, TARGET)
    latency = items[0].instruction.latency
    assert scheduled.cycles is not None and scheduled.cycles >= 4 * latency


@pytest.mark.parametrize(("rows", "depth"), [(1, 3), (4, 5), (6, 8)])
def test_a_short_loop_is_straight_code_where_that_is_quicker(rows: int, depth: int) -> None:
    function = matrix_product(TARGET, rows, 3, depth)
    scheduled = schedule(function, TARGET)
    with patch("dspgen.sched.loops.loop_plans._MOST_FLAT", 0):
        as_loop = schedule(function, TARGET)
    assert scheduled.cycles is not None and as_loop.cycles is not None
    assert scheduled.cycles <= as_loop.cycles
    assert scheduled.loops == () or scheduled.cycles == as_loop.cycles
    assert run_product(scheduled, TARGET, rows, 3 * TARGET.lanes, depth) == scheduled.cycles


def test_a_short_loop_stays_one_where_straight_code_has_too_many_operations() -> None:
    with ExitStack() as stack:
        stack.enter_context(patch("dspgen.sched.scheduler.flatten_short_loops", lambda body, *_: body))
        assert not schedule(powers(5), TARGET).loops
        stack.enter_context(patch("dspgen.sched.layout.appender._MOST_STRAIGHT", 6))
        assert report(schedule(powers(5), TARGET), "powers_i").pipelined


def test_a_constant_waits_for_its_reader() -> None:
    w = Writer(TARGET)
    x, late, value = VReg("x", w.scalar), VReg("late", w.scalar), VReg("value", w.scalar)
    w.constant(Reg(value), 3)
    w.op("mul", "i32", Reg(late), Reg(x), Reg(x))
    for _ in range(3):
        w.op("mul", "i32", Reg(late), Reg(late), Reg(late))
    w.op("add", "i32", Reg(late), Reg(late), Reg(value))
    facts = Facts(TARGET)
    fitted = fit_block([make_op(i, facts) for i in w.items if isinstance(i, Instr)], facts)
    at = {op.instruction.mnemonic: k for k, packet in enumerate(fitted.cycles) for op, _ in packet}
    constant, *_, last = (i.instruction for i in w.items if isinstance(i, Instr))
    assert at[constant.mnemonic] == at[last.mnemonic] - constant.latency


@pytest.mark.needs_tool("ortools")
def test_the_exact_scheduler_finds_what_the_others_miss() -> None:
    function = matrix_product(TARGET, 2, 1, 16)
    least = report(schedule(function, TARGET), "product_k").ii

    def short_of_breath(find: Callable[..., object]) -> Callable[..., object]:
        def found(graph: object, kinds: object, facts: object, interval: int, **how: int) -> object:
            return "missed" if interval <= least else find(graph, kinds, facts, interval, **how)

        return found

    with ExitStack() as stack:
        stack.enter_context(patch("dspgen.sched.loops.loop_plans._MOST_FLAT", 0))
        made = tuple(short_of_breath(find) for find in prepared.HEURISTICS)
        stack.enter_context(patch.object(prepared, "HEURISTICS", made))
        missed = report(schedule(function, TARGET), "product_k")
        found = schedule(function, TARGET, method="exact")
    assert missed.ii > least and not missed.optimal
    assert report(found, "product_k").ii == least
    assert run_product(found, TARGET, 2, TARGET.lanes, 16) == found.cycles


def test_a_loop_says_how_good_its_interval_is() -> None:
    found = report(schedule(matrix_product(TARGET, 9, 4, 64), TARGET), "product_k")
    assert found.optimal and found.arithmetic_mii == found.ii == 12
    assert any("12, proven optimal" in line for line in loop_block(found))
    worse = replace(found, ii=15, refused=12)
    assert not worse.optimal and any("15, 13 at least" in line for line in loop_block(worse))
    assert replace(worse, refused=14).optimal


def test_a_shorter_interval_that_takes_longer_in_all_is_told() -> None:
    found = schedule(matrix_product(TARGET, 9, 4, 64), TARGET)
    loop = report(found, "product_k")
    hurried = replace(found, loops=(replace(loop, ii=14, tried=((12, "given up"), (13, "given up"))),))
    patient = replace(found, cycles=found.cycles + 30)
    assert outdone(hurried, patient).loops[0].tried == (
        (12, f"the function is quicker at 14: {found.cycles} cycles against {found.cycles + 30}"),
        (13, "given up"),
    )
    assert outdone(patient, hurried) == patient


def test_what_a_schedule_lacks_is_told_before_that_others_were_not_found() -> None:
    made = (lambda *given, **how: GAVE_UP, *prepared.HEURISTICS[1:])
    with (
        patch.object(prepared, "HEURISTICS", made),
        patch.object(attempts.Attempts, "_attempt", lambda *given: "no registers"),
    ):
        loop = report(schedule(matrix_product(TARGET, 2, 1, 64), TARGET), "product_k")
    assert not loop.pipelined and {why for _, why in loop.tried} == {"no registers"}


def test_places_that_iterations_compute_anew_may_meet() -> None:
    """Groups of rows of which the last begins early, `start = min(8 * g, n - 8)`, overlap with those before them."""
    loop = Loop("groups", "g", 1, 8, (), (), varying=frozenset({"start"}))
    first, second = (MemRef("y", constant, (("start", 8),), 4, 1, 4) for constant in (0, 16))
    assert overlap_distance(first, second, loop, 0) is None
    assert overlap_distance(first, second, loop, 1) == 1
    assert overlap_distance(first, second, replace(loop, varying=frozenset()), 1) is None
