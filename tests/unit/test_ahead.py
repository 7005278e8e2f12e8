"""What code does before it has its data."""

from __future__ import annotations

from dspgen.asmir.dma.hoist_before_wait import ahead
from dspgen.asmir.ir.function import If, Imm, Instr, Loop, Mem, Phys, Reg, VReg
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
A, B, C, D, P = VReg("a", "R"), VReg("b", "R"), VReg("c", "R"), VReg("d", "R"), VReg("p", "ARS")


def constant(register: VReg, value: int) -> Instr:
    return Instr(TARGET.instruction("SMOVIL"), (Imm(value), Reg(register)))


def added(a: VReg, b: VReg, result: VReg) -> Instr:
    return Instr(TARGET.instruction("SADD"), (Reg(a), Reg(b), Reg(result)))


def loaded(result: VReg) -> Instr:
    return Instr(TARGET.instruction("SLDW"), (Mem(P, 0, None), Reg(result)))


def room(cls: str) -> int:
    return len(TARGET.register_class(cls).names)


def test_numbers_and_what_is_made_of_them_go_ahead() -> None:
    one, load, two, total, sum_ = constant(A, 1), loaded(B), constant(C, 2), added(A, C, D), added(A, B, VReg("e", "R"))
    assert ahead([one, load, two, total, sum_], room) == ([one, two, total], [load, sum_])


def test_what_is_read_first_is_not_overwritten() -> None:
    load, use, again = loaded(B), added(A, B, C), constant(A, 5)
    assert ahead([load, use, again], room) == ([], [load, use, again])
    assert ahead([load, constant(B, 1)], room)[0] == []


def test_what_is_done_under_a_condition_goes_ahead_where_nothing_else_knows_of_it() -> None:
    one, two, total, load = constant(A, 1), constant(B, 2), added(A, B, C), loaded(D)
    assert ahead([one, load, If(D, (two, total))], room) == ([one, two, total], [load, If(D, ())])
    after = added(C, A, A)
    assert ahead([one, load, If(D, (two, total)), after], room) == ([one, two], [load, If(D, (total,)), after])
    assert ahead([one, load, If(D, (two, total))], room, [after]) == ([one, two], [load, If(D, (total,))])


def test_what_is_done_on_either_side_stays_there() -> None:
    either = If(A, (constant(B, 1), added(B, B, C)), (constant(B, 2), added(B, B, C)))
    assert ahead([either], room) == ([], [either])


def test_nothing_goes_ahead_of_a_loop() -> None:
    loop, two = Loop("loop", "i", 1, 4, (), (added(A, A, A),)), constant(C, 2)
    assert ahead([constant(A, 1), loop, two], room) == ([constant(A, 1)], [loop, two])


def test_no_more_goes_ahead_than_there_is_room_for() -> None:
    load, one, two, three = loaded(B), constant(A, 1), constant(C, 2), constant(D, 3)
    use = added(B, A, B), added(C, D, D)
    assert ahead([load, one, two, three, *use], lambda cls: 2) == ([one, two], [load, three, *use])


def test_what_only_others_that_go_ahead_read_takes_no_room() -> None:
    chain = [constant(A, 1), added(A, A, B), added(B, B, C)]
    load, use = loaded(P), added(C, C, C)
    assert ahead([load, *chain, use], lambda cls: 1) == ([*chain, use], [load])


def test_what_a_register_without_a_name_is_set_for_stays_behind_it() -> None:
    """A shuffle reads its pattern's number in the mode register, which code in the block sets."""
    x, y, z = (VReg(n, "VR") for n in "xyz")
    number, mode = constant(A, 1), Instr(TARGET.instruction("SMVCGC"), (Reg(A), Phys("SMR")))
    shuffle = Instr(TARGET.instruction("VSHUFW"), (Reg(x), Reg(y), Reg(z)))
    assert ahead([number, mode, shuffle], room) == ([number], [mode, shuffle])
    assert ahead([shuffle], room) == ([shuffle], [])
