"""Instruction selection, address streams and carried variables of linear assembly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dspgen.asmir.ir.function import Function, If, Imm, Instr, Item, Loop, Mem, Phys, Predicate, Reg, VReg
from dspgen.asmir.ir.verify import MalformedFunction, verify
from dspgen.asmir.lower import lower
from dspgen.asmir.passes.copy_coalescing import coalesce_moves
from dspgen.asmir.passes.predication import predicate_operations
from dspgen.errors import NoSchedule
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    Const,
    Load,
    Op,
    Program,
    ScalarDecl,
    Stmt,
    Store,
    Var,
    VType,
)
from dspgen.vecdsl.ir.program import If as Branch
from dspgen.vecdsl.ir.program import Loop as VLoop

F32, I32, VF32, VI32 = VType("f32", False), VType("i32", False), VType("f32", True), VType("i32", True)


def number(value: int) -> Const:
    return Const(value, I32)


def loop(name: str, trip: int, body: tuple[Stmt, ...], *, step: int = 1, carried: tuple[Carried, ...] = ()) -> VLoop:
    return VLoop(name, number(0), number(trip), step, carried, body, trip, trip)


def program(*body: Stmt, size: int = 4096) -> Program:
    arrays = tuple(ArrayDecl(n, "f32", size, False) for n in ("x", "y"))
    return Program("f", ("x", "y", "a"), arrays, (ScalarDecl("a", "f32"),), body)


def instructions(items: tuple[Item, ...]) -> Iterator[Instr]:
    for item in items:
        match item:
            case Instr():
                yield item
            case Loop(body=inner) | If(then=inner):
                yield from instructions(inner)


def loops(items: tuple[Item, ...]) -> Iterator[Loop]:
    for item in items:
        if isinstance(item, Loop):
            yield item
            yield from loops(item.body)


def ld(address: int, **terms: int) -> Load:
    return Load("x", Address(address, tuple(sorted(terms.items()))), 1, "f32", VF32)


def lowered(target: Target, *body: Stmt) -> Function:
    return verify(lower(program(*body), target), target)


def test_one_stream_for_equal_coefficients(ft_m7002: Target) -> None:
    store = Store("y", Address(0, (("i", 1),)), 1, "f32", Op("add", (ld(0, i=1), ld(5, i=1)), VF32))
    (found,) = loops(lowered(ft_m7002, loop("i", 8, (store,), step=16)).body)
    assert sorted((s.step, s.side) for s in found.streams) == [(64, "vector"), (64, "vector")]
    offsets = [o.offset for i in found.body if isinstance(i, Instr) for o in i.operands if isinstance(o, Mem)]
    assert sorted(offsets) == [0, 0, 20]


def test_offsets_in_units_of_the_access() -> None:
    """1 in a vector access's immediate is a whole vector of Hexagon's: eight of them are within reach of a register."""
    vectors = [Load("x", Address(32 * k, (("i", 1),)), 1, "i32", VType("i32", True)) for k in range(4)]
    sums = Op("add", (Op("add", (vectors[0], vectors[1]), VI32), Op("add", (vectors[2], vectors[3]), VI32)), VI32)
    body = loop("i", 16, (Store("y", Address(0), 1, "i32", sums),))
    arrays = tuple(ArrayDecl(n, "i32", 4096, False) for n in ("x", "y"))
    made = lower(Program("f", ("x", "y"), arrays, (), (body,)), load_target("hexagon_v66"))
    loads = [
        v for i in instructions(made.body) for v in i.operands if isinstance(v, Mem) and i.instruction.id == "VMEMU_LD"
    ]
    assert len({m.base for m in loads}) == 1
    assert [m.offset for m in loads] == [0, 128, 256, 384]


def test_numbers_are_set_before_the_loop() -> None:
    """Rotations take their distances from registers, which no iteration of a loop sets again."""
    total = Op("lane", (Op("all_add", (Load("x", Address(0, (("i", 32),)), 1, "i32", VI32),), VI32),), I32, (0,))
    body = loop("i", 16, (Store("y", Address(0, (("i", 1),)), 1, "i32", total),))
    arrays = tuple(ArrayDecl(n, "i32", 4096, False) for n in ("x", "y"))
    made = lower(Program("f", ("x", "y"), arrays, (), (body,)), load_target("hexagon_v66"))
    (found,) = [item for item in made.body if isinstance(item, Loop)]
    assert not any(
        isinstance(v, Imm) for i in instructions(found.body) if i.instruction.id == "S_SET" for v in i.operands
    )


def test_more_streams_than_address_registers(ft_m7002: Target) -> None:
    """Accesses that no register is left for compute their address each time, and still name what they touch."""
    value: Load | Op = ld(0, i=1)
    for k in range(2, 14):
        value = Op("add", (value, ld(0, i=k)), VF32)
    (found,) = loops(lowered(ft_m7002, loop("i", 8, (Store("y", Address(0), 1, "f32", value),))).body)
    names = ft_m7002.register_class(ft_m7002.address_modes.base_classes["vector"]).names
    assert 0 < len(found.streams) < len(names)
    assert all(o.access for i in instructions(found.body) for o in i.operands if isinstance(o, Mem))


def test_carried_variables_are_assigned_at_once(ft_m7002: Target) -> None:
    """Two variables that trade places need a copy; each still reads the other's old value."""
    swap = (Carried("p", Const(1.0, F32), Var("q", F32)), Carried("q", Const(2.0, F32), Var("p", F32)))
    last = Store("y", Address(0), 1, "f32", Var("p", F32))
    (found,) = loops(lowered(ft_m7002, loop("i", 5, (), carried=swap), last).body)
    moves = [i for i in found.body if isinstance(i, Instr)]
    assert len(moves) == 3
    first = [o.vreg for o in moves[0].operands if isinstance(o, Reg)]
    assert first[0] in {o.vreg for m in moves[1:] for o in m.operands if isinstance(o, Reg)}


def test_a_lacking_operation_names_itself(ft_m7002: Target) -> None:
    store = Store("y", Address(0), 1, "f32", Op("sqrt", (ld(0),), VF32))
    with pytest.raises(NoSchedule, match=r"vector `sqrt` of type f32"):
        lower(program(store), ft_m7002)


def test_more_parameters_than_registers_are_loaded_at_entry(ft_m7002: Target) -> None:
    names = tuple(f"x{k}" for k in range(len(ft_m7002.abi.arguments) + 1))
    arrays = tuple(ArrayDecl(n, "f32", 16, False) for n in names)
    function = lower(Program("f", names, arrays, (), ()), ft_m7002)
    ((structure, place),) = function.inputs
    assert structure.cls == ft_m7002.abi.pointer_class and isinstance(place, str)
    assert [v.name for v in function.parameters] == [f"p_{n}" for n in names]
    accesses = [o.access for i in function.entry if isinstance(i, Instr) for o in i.operands if isinstance(o, Mem)]
    assert [a.constant for a in accesses if a is not None] == [8 * k for k in range(len(names))]
    assert not function.body and function.entered.body == function.entry
    verify(function, ft_m7002)


def test_pair_loads_name_both_halves(ft_m7002: Target) -> None:
    """The scheduler must see that a store to the high half's elements follows."""
    pair = Op("ld_pair", (ld(0),), VF32)
    store = Store("x", Address(16), 1, "f32", Op("lo", (pair,), VF32))
    accesses = [o.access for i in instructions(lowered(ft_m7002, store).body) for o in i.operands if isinstance(o, Mem)]
    assert sorted(a.count for a in accesses if a is not None) == [16, 32]


def move_of(target: Target, source: VReg, destination: VReg) -> Instr:
    forms = OperationTable(target).forms("mov", "i32")
    form = next(f for f in forms if source.cls in f.operand(0).classes and destination.cls in f.result_operand.classes)
    values = {form.args[0]: Reg(source), form.result: Reg(destination)}
    return Instr(form.instruction, tuple(values[o.name] for o in form.instruction.operands))


def test_a_move_of_a_fresh_value_goes_away(ft_m7002: Target) -> None:
    a, t, c = (VReg(n, ft_m7002.abi.scalar_class) for n in "atc")
    items = [move_of(ft_m7002, a, t), move_of(ft_m7002, t, c)]
    assert coalesce_moves(items) == [move_of(ft_m7002, a, c)]


def test_a_shift_by_nothing_is_a_move(ft_m7002: Target) -> None:
    a, t, c = (VReg(n, ft_m7002.abi.scalar_class) for n in "atc")
    shift = ft_m7002.instruction("SSHFAR")

    def shifted(amount: int) -> list[Item]:
        return [move_of(ft_m7002, a, t), Instr(shift, (Imm(amount), Reg(t), Reg(c)))]

    assert coalesce_moves(shifted(0)) == [move_of(ft_m7002, a, c)]
    assert coalesce_moves(shifted(1)) == shifted(1)


def test_a_move_stays_where_the_variable_is_read_in_between(ft_m7002: Target) -> None:
    a, b, t, c = (VReg(n, ft_m7002.abi.scalar_class) for n in "abtc")
    items = [move_of(ft_m7002, a, t), move_of(ft_m7002, c, b), move_of(ft_m7002, t, c)]
    assert coalesce_moves(items) == items


def product_of(target: Target, a: VReg, b: VReg, c: VReg, d: VReg) -> Instr:
    return Instr(target.instruction("VFMULAS32"), (Reg(a), Reg(b), Reg(c), Reg(d)))


def test_an_operation_takes_the_predicate_of_the_move_of_its_result(ft_m7002: Target) -> None:
    a, b, p, t, c, d = (VReg(n, "VR") for n in "abptcd")
    under = replace(move_of(ft_m7002, t, d), predicate=Predicate(p, lane=True))
    items = [product_of(ft_m7002, a, b, c, t), move_of(ft_m7002, c, d), under, move_of(ft_m7002, d, c)]
    made = predicate_operations(items, frozenset({c}))
    predicated = replace(product_of(ft_m7002, a, b, d, d), predicate=Predicate(p, lane=True))
    assert made == [move_of(ft_m7002, c, d), predicated, move_of(ft_m7002, d, c)]
    # The carried sum stays in its register then.
    alone = replace(product_of(ft_m7002, a, b, c, c), predicate=Predicate(p, lane=True))
    assert coalesce_moves(made, frozenset({c})) == [alone]


def test_an_operation_whose_result_is_read_elsewhere_keeps_it(ft_m7002: Target) -> None:
    a, b, p, t, c, d, e = (VReg(n, "VR") for n in "abptcde")
    under = replace(move_of(ft_m7002, t, d), predicate=Predicate(p, lane=True))
    items = [product_of(ft_m7002, a, b, c, t), move_of(ft_m7002, c, d), under, move_of(ft_m7002, t, e)]
    assert predicate_operations(items) == items
    changed = [product_of(ft_m7002, a, b, c, t), move_of(ft_m7002, e, a), move_of(ft_m7002, c, d), under]
    assert predicate_operations(changed) == changed


def joined(target: Target, a: VReg, t: VReg) -> list[Item]:
    """A scalar put into an element register, and the vector of all of them."""
    put, take = target.instruction("SMVCGC"), target.instruction("VMVCCG")
    return [Instr(put, (Reg(a), Phys("SVR3"))), Instr(take, (Phys("SVR"), Reg(t)))]


def shuffled(target: Target, mode: VReg, a: VReg, t: VReg) -> list[Item]:
    """A shuffle by the mode that is set for it."""
    sets, shuffle = target.instruction("SMVCGC_MODE"), target.instruction("VSHUFW")
    return [Instr(sets, (Reg(mode), Phys("SMR"))), Instr(shuffle, (Reg(a), Reg(a), Reg(t)))]


@pytest.mark.parametrize("maker", [joined, shuffled])
def test_what_depends_on_physical_registers_does_not_wait_for_its_predicate(
    ft_m7002: Target, maker: Callable[..., list[Item]]
) -> None:
    """Each is made before the next one's registers are set."""
    scalars, (a, p, t, u, c, d) = [VReg(n, "R") for n in "mn"], (VReg(n, "VR") for n in "aptucd")
    given: list[tuple[VReg, ...]] = [(s, a) if maker is shuffled else (s,) for s in scalars]
    items = [*maker(ft_m7002, *given[0], t), *maker(ft_m7002, *given[1], u), move_of(ft_m7002, c, d)]
    items += [replace(move_of(ft_m7002, x, d), predicate=Predicate(p, lane=True)) for x in (t, u)]
    assert predicate_operations(items, frozenset({c, d})) == items


@pytest.mark.parametrize("kept", [{"ordered": True}, {"masked": True}])
def test_a_move_that_keeps_its_place_or_lanes_stays_a_move(ft_m7002: Target, kept: dict[str, bool]) -> None:
    a, b, p, t, c, d = (VReg(n, "VR") for n in "abptcd")
    under = replace(move_of(ft_m7002, t, d), predicate=Predicate(p, lane=True), **kept)
    items = [product_of(ft_m7002, a, b, c, t), move_of(ft_m7002, c, d), under]
    assert predicate_operations(items, frozenset({c, d})) == items


def test_a_mask_for_all_of_a_statement_is_not_one_that_a_branch_has_made(ft_m7002: Target) -> None:
    first, i = Op("mask_first", (), VI32, (8,)), Var("i", I32)
    masked = Store("y", Address(0), 1, "f32", ld(0), mask=first)
    few = Store("y", Address(16), 1, "f32", ld(16), active=8)
    lowered(ft_m7002, loop("i", 4, (Branch(i, (masked, few)), Branch(Op("lt", (i, number(2)), I32), (few,)))))


def test_verify_finds_a_read_of_nothing(ft_m7002: Target) -> None:
    a, b = (VReg(n, ft_m7002.abi.scalar_class) for n in "ab")
    with pytest.raises(MalformedFunction, match="reads a before it is written"):
        verify(Function("f", (), (move_of(ft_m7002, a, b),)), ft_m7002)


def test_opposite_conditions_are_two_sides_of_one(ft_m7002: Target) -> None:
    small = Op("lt", (Var("n", I32), number(8)), I32)
    large, other = Op("eq", (small, number(0)), I32), Op("lt", (Var("n", I32), number(9)), I32)
    writes = [Store("y", Address(16 * k), 1, "f32", ld(16 * k)) for k in range(4)]
    body = (
        Branch(large, (writes[0],)),
        Branch(small, (writes[1],)),
        Branch(large, (writes[2],)),
        Branch(other, (writes[3],)),
    )
    arrays = tuple(ArrayDecl(n, "f32", 4096, False) for n in ("x", "y"))
    made = lower(Program("f", ("x", "y", "n"), arrays, (ScalarDecl("n", "i32"),), body), ft_m7002)
    found = [item for item in verify(made, ft_m7002).body if isinstance(item, If)]
    assert [bool(item.otherwise) for item in found] == [True, False, False]
