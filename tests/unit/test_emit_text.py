"""Packets printed as text and read back are the same packets."""

from __future__ import annotations

import pytest

from dspgen.asmir.ir.function import Function, Instr, Mem, Reg, VReg
from dspgen.emit.linear import emit_linear
from dspgen.emit.text import format_operand, print_lines
from dspgen.sched.ir.packets import Address, CommentLine, LabelLine, Nop, Packet, Placed
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.sim_programs import Generator


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("ft_m7002")


def parts(placed: Placed) -> tuple[object, ...]:
    return placed.instruction.id, placed.operands, placed.predicate, placed.negated


@pytest.mark.parametrize("seed", range(30))
def test_round_trip(target: Target, seed: int) -> None:
    lines = [LabelLine("start"), *Generator(target, seed).block(25)]
    program = assemble(print_lines(lines, target), target)
    printed = [line for line in lines if not isinstance(line, LabelLine)]
    assert len(printed) == len(program.packets)
    for line, packet in zip(printed, program.packets, strict=True):
        if isinstance(line, Nop):
            assert (packet.idle, packet.members) == (line.cycles, ())
            continue
        assert isinstance(line, Packet)
        assert packet.idle == (0 if line.members else 1)
        assert [parts(m) for m in line.members] == [parts(m) for m in packet.members]


def test_layout(target: Target) -> None:
    add = target.instruction("SADD")
    lines = [
        CommentLine("two\nlines"),
        LabelLine("f"),
        Packet((Placed(add, "SMAC1", ("R1", "R2", "R3"), "R0", True), Placed(add, "SMAC2", (1, "R2", "R4")))),
        Nop(9),
    ]
    assert print_lines(lines, target).split("\n") == [
        "; two",
        "; lines",
        "f:",
        "        [!R0] SADD.M1 R1, R2, R3",
        "|       SADD.M2 1, R2, R4",
        "        SNOP 7",
        "        SNOP 2",
        "",
    ]


def test_operands(target: Target) -> None:
    memory = target.instruction("VLDW").operands[0]
    assert format_operand(Address("AR1", "none"), memory, target) == "*AR1"
    assert format_operand(Address("AR1", "pre_dec", "OR2"), memory, target) == "*--AR1[OR2]"
    assert format_operand("@loop", memory, target) == "loop"
    high = target.instruction("SMOVIH").operands[0]
    assert format_operand(0x12, high, target) == "0x0012"


def test_places_between_two_units_of_an_access(target: Target) -> None:
    """A pair of vectors that begins half a unit further on, as a window of single elements may."""
    row = next(i for i in target.instructions if i.mnemonic == "VLDDW")
    (address,) = (o for o in row.operands if o.kind == "memory")
    base, pair = VReg("a", "ARV"), VReg("x", "VRP")
    values = tuple(Mem(base, 388, None) if o is address else Reg(pair) for o in row.operands)
    text = emit_linear(Function("f", (), (Instr(row, values),)), target)
    assert "VLDDW *+a_4[48], x_1:x_0" in text
    assert any("4" in line and "a, " in line and line.endswith("a_4") for line in text.splitlines())
