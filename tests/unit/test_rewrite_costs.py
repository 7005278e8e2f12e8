"""What extraction counts each operation for, and how an ISA file's figures change what it takes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dspgen.bench.tiles import TILES, matrix_product
from dspgen.rewrite.cost.operation_costs import Access, Machine, Value
from dspgen.rewrite.cost.scalarization_cost import Implementation, in_turn
from dspgen.rewrite.egraph import saturation_process as guard
from dspgen.rewrite.egraph.rule_text import head_of
from dspgen.rewrite.egraph.saturate import Job, Limits, saturated
from dspgen.rewrite.graph.enodes import Node
from dspgen.rewrite.optimize import Effort, optimise
from dspgen.target.isa.model import Instruction, MemoryAccess, Operand, Rewrite, SemExpr, SemStatement, Target
from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Const, Load, Loop, Op, Program, Store, Term, VType
from dspgen.vecdsl.ir.verify import verify

F = VType("f32", True)
S = VType("f32", False)
V = VType("i32", True)
N = VType("i32", False)
WIDE = load_target("ft_m7002")


def cycles(implementation: Implementation | None, units: tuple[str, ...]) -> int:
    assert implementation is not None
    return sum(n for u, n in implementation.occupancy if set(u) & set(units))


def row_of(target: Target, op: str, elem: str) -> Instruction:
    return next(r for r in target.instructions if any(s.value.op == op and s.value.type == elem for s in r.semantics))


def with_rows(target: Target, *rows: Instruction) -> Target:
    return replace(target, instructions=(*target.instructions, *rows))


def duplicating(target: Target, units: tuple[str, ...]) -> Instruction:
    vector = next(c.name for c in target.registers if c.kind == "vector" and c.pair_of is None)
    operands = (
        Operand("a", "register", (vector,), read=True),
        Operand("k", "immediate", imm=(0, target.lanes - 1)),
        Operand("d", "register", (vector,), write=True, latency=1),
    )
    value = SemExpr("dup_lane", "i32", (SemExpr("place", name="a"), SemExpr("place", name="k")))
    return Instruction("dup", "dup", operands, units, 1, (SemStatement(SemExpr("place", name="d"), value),))


def spreading_load(target: Target) -> Instruction:
    """The contiguous vector load of words, turned into one that gives its first word to every lane."""
    row = next(
        r
        for r in target.instructions
        if len(r.semantics) == 1
        and r.semantics[0].value.op == "vld"
        and r.semantics[0].value.type == "i32"
        and r.semantics[0].value.args[1].value == 1
    )
    (statement,) = row.semantics
    place, _, first = statement.value.args
    value = replace(statement.value, args=(place, SemExpr("int", value=0), first))
    assert isinstance(row.memory, MemoryAccess)
    return replace(row, id="spread", mnemonic="spread", semantics=(replace(statement, value=value),))


def text(target: Target, program: Program | None = None) -> str:
    program = matrix_product(target.lanes, 2, 2) if program is None else program
    return print_program(verify(optimise(program, target, readable=readable(program)).program))


# -- scalar and vector units together


def broadcasts() -> list[str]:
    return [r.id for r in WIDE.instructions if any(s.value.op == "bcast" for s in r.semantics)]


def dear(target: Target, ids: list[str], cost: int) -> Target:
    return replace(target, instructions=tuple(replace(r, cost=cost) if r.id in ids else r for r in target.instructions))


def test_a_dear_broadcast_gives_way_to_a_cheap_spread_of_a_lane() -> None:
    units = row_of(WIDE, "bcast", "i32").units
    both = with_rows(WIDE, duplicating(WIDE, ("VIEU",) if "VIEU" in WIDE.unit_members else units))
    assert "bcast" in text(dear(both, ["dup"], 1))
    changed = text(dear(both, broadcasts(), 8))
    assert "dup_lane" in changed and "bcast" not in changed


def test_a_busy_broadcast_counts_as_a_dear_one() -> None:
    ids = broadcasts()
    both = with_rows(load_target("ft_m7002", [(f"instructions.{i}.busy", "9") for i in ids]))
    changed = text(with_rows(both, duplicating(both, (both.unit_members[-1],))))
    assert "dup_lane" in changed


def test_a_load_that_spreads_is_taken_where_the_broadcast_is_dear() -> None:
    machine = dear(with_rows(WIDE, spreading_load(WIDE)), broadcasts(), 8)
    changed = text(machine)
    assert "bcast" not in changed and "ld.f32.v A" in changed


def test_a_cost_of_the_isa_file_is_counted() -> None:
    row = row_of(WIDE, "bcast", "i32")
    node, args = Node("op", "bcast", "f32", True, (0,)), [Value(S, False)]
    before = Machine(WIDE).implementation(node, args, "", 0)
    after = Machine(dear(WIDE, [row.id], 5)).implementation(node, args, "", 0)
    assert cycles(after, row.units) == cycles(before, row.units) + 5


# -- what is done lane by lane

SCALAR_LOADS = row_of(WIDE, "ld", "i32").units
SCALAR_STORES = row_of(WIDE, "st", "i32").units


def test_a_gather_takes_a_scalar_load_for_each_lane() -> None:
    machine = Machine(WIDE)
    made = machine.implementation(Node("ld", "ldx", "f32", True, (0,), stride=1), [Value(V, False)], "f32", 4)
    assert cycles(made, SCALAR_LOADS) == WIDE.lanes
    far = machine.implementation(Node("ld", "ld", "f32", True, stride=64), [], "f32", 4)
    assert cycles(far, SCALAR_LOADS) == WIDE.lanes
    assert made is not None and far is not None and far.total < made.total
    near = machine.implementation(Node("ld", "ld", "f32", True, stride=3), [], "f32", 4)
    assert near is not None and near.total < far.total and cycles(near, SCALAR_LOADS) == 0


def test_an_index_that_all_lanes_share_is_one_place() -> None:
    machine, node = Machine(WIDE), Node("ld", "ldx", "f32", True, (0,), stride=1)
    whole = machine.implementation(Node("ld", "ld", "f32", True, stride=1), [], "f32", 4)
    made = machine.implementation(node, [Value(V, False, uniform=True)], "f32", 4)
    assert made == in_turn(machine.lanewise.address, whole)
    stored = machine.store(Access("f32", F, 1, 4, indexed=True, uniform=True))
    assert stored == in_turn(machine.lanewise.address, machine.store(Access("f32", F, 1, 4)))


def test_an_index_that_all_lanes_share_stays_a_broadcast() -> None:
    # Made on lanes, by whatever is cheap there, each lane would have a place of its own.
    body = []
    for g in ("g:i32", "(add.i32 g:i32 (const.i32 1))"):
        index = f"index (bcast.i32.v (min.i32 (mul.i32 (const.i32 32) {g}) e:i32))"
        for row in range(0, 720, 90):
            loads = " ".join(f"(ld.f32.v a [{row + more}] 1 {index})" for more in (0, 90))
            body.append(f"store.f32 y [{row}] 1 {index} = (add.f32.v {loads})")
    head = "array a f32 3600 const\narray y f32 3600\nscalar n i32\nscalar e i32"
    lines = "\n".join(body)
    source = (
        f"program k(a, y, n, e)\n{{\n{head}\nloop g start (const.i32 0) trip n:i32 step 2 min 0 {{\n{lines}\n}}\n}}\n"
    )
    found = text(WIDE, parse_program(source))
    names = set(re.findall(r"let (t\d+) = \(bcast\.i32\.v ", found))
    places = re.findall(r" index (\S+):i32\.v", found)
    assert len(places) >= 16 and names.issuperset(places) and "index (" not in found


def test_accesses_that_are_one_instruction_cost_one() -> None:
    machine = Machine(WIDE)
    plain = machine.implementation(Node("ld", "ld", "f32", True, stride=1), [], "f32", 64)
    assert plain is not None and plain.total == 1
    whole = machine.store(Access("f32", F, 1, 64))
    first = machine.store(Access("f32", F, 1, 64, active=True))
    assert whole == first and whole is not None and whole.total == 1


def test_stores_that_the_machine_lacks() -> None:
    machine = Machine(WIDE)
    strided, scattered = machine.store(Access("f32", F, 3, 4)), machine.store(Access("f32", F, 1, 4, indexed=True))
    assert cycles(strided, SCALAR_STORES) == WIDE.lanes <= cycles(scattered, SCALAR_STORES)
    periods = machine.store(Access("f32", F, 1, 4, period=4))
    assert periods is not None and periods.total == WIDE.lanes // 4


def test_a_periodic_load_takes_a_load_for_each_period() -> None:
    machine = Machine(WIDE)
    made = machine.implementation(Node("ld", "ld2", "f32", True, stride=1, period=4, jump=9), [], "f32", 4)
    whole = machine.implementation(Node("ld", "ld", "f32", True, stride=1), [], "f32", 4)
    assert made is not None and whole is not None and made.total >= WIDE.lanes // 4 * whole.total


def test_operations_of_all_lanes() -> None:
    machine = Machine(WIDE)
    value = [Value(F, False)]
    all_ = machine.implementation(Node("op", "all_add", "f32", True, (0,)), value, "", 0)
    one = machine.implementation(Node("op", "reduce_add", "f32", False, (0,)), value, "", 0)
    spread = machine.implementation(Node("op", "bcast", "f32", True, (0,)), [Value(S, False)], "", 0)
    assert all_ == in_turn(one, spread)
    product = machine.implementation(Node("op", "reduce_mul", "f32", False, (0,)), value, "", 0)
    assert product is not None and product.total >= 2 * WIDE.lanes - 1


def test_lanes_are_dearer_without_a_view_of_them() -> None:
    """They go through memory: two vector accesses, or as many scalar ones as there are lanes, beside the gather's."""
    blind = replace(WIDE, registers=tuple(r for r in WIDE.registers if r.kind != "element"), macros=())
    without = Machine(replace(blind, instructions=tuple(r for r in blind.instructions if _seen(r, blind))))
    gather = Node("ld", "ldx", "f32", True, (0,), stride=1)
    costs = [m.implementation(gather, [Value(V, False)], "f32", 4) for m in (without, Machine(WIDE))]
    accesses = [sum(n for units, n in c.occupancy if "SLDST" in units) for c in costs if c is not None]
    assert accesses == [3 * WIDE.lanes, WIDE.lanes]


def _seen(row: Instruction, target: Target) -> bool:
    known = {c.name for c in target.registers}
    return all(set(o.classes) <= known for o in row.operands)


# -- graphs that stay small, and rules that do not end


@pytest.mark.parametrize("make", TILES, ids=lambda make: make.__name__)
def test_a_graph_does_not_grow_with_the_lanes(make: object) -> None:
    sizes = []
    for lanes in (4, 16, 64):
        program = make(lanes)  # type: ignore[operator]
        machine = load_target("ft_m7002", [("lanes", str(lanes))])
        result = optimise(program, machine, readable=readable(program))
        sizes.append(result.nodes)
        assert not any("budget" in r.message for r in result.remarks)
    assert max(sizes) <= 1.1 * min(sizes) and max(sizes) <= 800


def sums(count: int) -> Program:
    loads: list[Term] = [Load("A", Address(k, (("i", 64),)), 1, "i32", N) for k in range(count)]
    total: Term = Const(0, N)
    for left, right in zip(loads, loads[1:], strict=False):
        total = Op("xor", (total, Op("sub", (left, right), N)), N)
    store = Store("A", Address(63, (("i", 64),)), 1, "i32", total)
    loop = Loop("i", Const(0, N), Const(8, N), 1, (), (store,), 8, 8)
    return Program("p", ("A",), (ArrayDecl("A", "i32", 1024, False),), (), (loop,))


def rotated() -> Program:
    """A row of an identity matrix rotated three times, by divided elements: sums of products by 0 and by 1."""
    loads = [Load("A", Address(k), 1, "f32", S) for k in range(10)]
    x, y, p, q, s, t = (
        Op("div", (n, d), S) for n, d in zip(loads[:6], [loads[k] for k in (6, 6, 7, 7, 8, 8)], strict=True)
    )
    zero, one = Const(0.0, S), Const(1.0, S)

    def of(op: str, *args: Term) -> Term:
        return Op(op, args, S)

    second = of("add", of("mul", x, zero), of("mul", y, one))
    third = of("sub", of("mul", x, one), of("mul", y, zero))
    turned = of("sub", of("mul", second, q), of("mul", p, zero))
    last = of("sub", of("mul", s, third), of("mul", t, turned))
    arrays = (ArrayDecl("A", "f32", 64, False), ArrayDecl("B", "f32", 64, False))
    return Program("p", ("A", "B"), arrays, (), (Store("B", Address(0), 1, "f32", last),))


def test_sums_of_products_by_zero_do_not_run_away() -> None:
    assert optimise(rotated(), WIDE).nodes <= Limits().runaway


def test_a_round_that_runs_away_does_not_count() -> None:
    a, b = (Node("var", "var", "i32", False, text=name) for name in "ab")
    nodes = (a, b, Node("op", "sub", "i32", False, (0, 1)))
    made = "(op_sub_i32_0 ?s ?a (op_sub_i32_0 ?s ?b ?c))"
    line = f"(rule ((= ?d (op_sub_i32_0 ?s ?a ?b)) (= ?e (op_sub_i32_0 ?s ?c ?f))) ({made}) :ruleset dspgen_rules)"
    job = Job((line,), (head_of(nodes[2]),), nodes, (), Limits(iterations=8, nodes=4000, runaway=8000))
    free = saturated(replace(job, limits=replace(job.limits, runaway=10**9)))
    graph = saturated(job)
    assert graph.reason == free.reason == "budget" and graph.size <= 8000 < free.size
    assert graph.iterations == free.iterations - 1 and graph.of_node == free.of_node


def grows(left: str, right: str) -> Target:
    return replace(WIDE, rewrites=(*WIDE.rewrites, Rewrite("grows", left, right)))


def test_a_row_that_takes_what_it_makes_ends_at_the_budget() -> None:
    target = grows("(sub.i32 ?a ?b)", "(xor.i32 (sub.i32 (xor.i32 ?a 5) ?b) (xor.i32 (sub.i32 ?a ?b) ?a))")
    result = optimise(sums(6), target, effort=Effort(limits=Limits(iterations=4, nodes=300)))
    assert any(r.kind == "rewriting" and "stopped at the budget" in r.message for r in result.remarks)
    assert print_program(verify(result.program))


def test_a_row_that_fills_the_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MEGABYTES", 96)
    guard.stop()
    target = grows(
        "(sub.i32 ?a ?b) (sub.i32 ?c ?d)",
        "(xor.i32 (sub.i32 (sub.i32 ?a ?b) (sub.i32 ?c ?d)) (sub.i32 ?d ?b)) (sub.i32 ?c ?d)",
    )
    result = optimise(sums(32), target)
    guard.stop()
    assert any(r.kind == "budget" and "MiB" in r.message for r in result.remarks)
    assert any(r.kind == "rewriting" and "stopped for memory" in r.message for r in result.remarks)
    assert print_program(verify(result.program))


def test_the_rows_of_a_sound_isa_file_need_no_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(job: guard.Job) -> None:
        raise AssertionError("a process of its own")

    monkeypatch.setattr("dspgen.rewrite.optimize.saturated_apart", refused)
    for kind, op in ((F, "rcp_est"), (S, "rsqrt_est")):
        value = Op("div", (Load("A", Address(0), 1, "f32", kind), Load("A", Address(16), 1, "f32", kind)), kind)
        if kind == S:
            value = Op("sqrt", (value,), S)
        program = Program(
            "p", ("A",), (ArrayDecl("A", "f32", 64, False),), (), (Store("A", Address(32), 1, "f32", value),)
        )
        assert op in text(WIDE, program)


def test_a_process_of_its_own_gives_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    program = matrix_product(16, 2, 2)
    expected = print_program(optimise(program, WIDE).program)
    asked = []

    def apart(job: guard.Job) -> object:
        asked.append(job)
        graph = guard.saturated_apart(job)
        assert graph == saturated(job)
        return graph

    monkeypatch.setattr("dspgen.rewrite.optimize.may_grow", lambda rules, own: True)
    monkeypatch.setattr("dspgen.rewrite.optimize.saturated_apart", apart)
    assert print_program(optimise(program, WIDE).program) == expected
    assert asked


SHORT = """
program f(x, y)
{
  array x i16 64 const
  array y i32 64
  loop i start (const.i32 0) trip (const.i32 4) step 16 min 4 max 4 {
    store.i32 y [i] 1 = (select.i32.v (lt.i32.v (ld.i32.v x [i] 1) (const.i32.v 100)) (const.i32.v 7) (const.i32.v 1))
  }
}
"""


def test_numbers_of_few_bits_are_compared_by_the_sign_of_their_distance() -> None:
    """Where the machine has no comparison, any numbers take nine operations."""
    program = parse_program(SHORT)
    text = print_program(optimise(program, WIDE, readable=readable(program)).program)
    assert "sub.i32.v" in text
    assert "(lt.i32.v" not in text
