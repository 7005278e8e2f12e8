"""Assembly text: what is accepted, which form and unit is taken, and every complaint with its place."""

from __future__ import annotations

import pytest

from dspgen.errors import SourceError
from dspgen.sched.ir.packets import Address
from dspgen.sim.call_syntax import parse_call
from dspgen.sim.ir.program import Assembled
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("ft_m7002")


def read(target: Target, text: str) -> Assembled:
    return assemble(text, target, "t.s")


def complaints(target: Target, text: str) -> list[tuple[str, int, int]]:
    with pytest.raises(SourceError) as caught:
        read(target, text)
    return [(p.code, p.loc.line, p.loc.column) for p in caught.value.problems if p.loc]


def test_bars_labels_comments_and_predicates(target: Target) -> None:
    text = (
        ".global f ; the entry\r\n"
        "f: first:\tSADD.M1 R2,R3,R4;no blank\r\n"
        "; | SADD.M2 R2, R3, R5\r\n"
        ".LVL3:\r\n"
        " .loc 1 2 3\r\n"
        "\t|[ R0 ]SADD.M2 1 , R3, R5 // other\r\n"
        "   | [!VR1]  VMOV VR1, VR2\r\n"
        ".loop_i:[R1]SBR .loop_i\r\n"
        " SNOP 6 ;\u4e2d\u6587"
    )
    program = read(target, text)
    assert program.entry == "f"
    assert program.labels == {"f": 0, "first": 0, ".LVL3": 0, ".loop_i": 1}
    assert [len(p.members) for p in program.packets] == [3, 1, 0]
    assert program.packets[2].idle == 6
    member = program.packets[0].members[1]
    assert (member.predicate, member.negated, member.unit, member.operands) == ("R0", False, "SMAC2", (1, "R3", "R5"))
    assert program.packets[0].members[2].negated


def test_members_without_a_suffix_take_what_is_free(target: Target) -> None:
    text = " SADD R1,R2,R3\n|SADD R1,R2,R4\n|SADD R1,R2,R5\n| SHIFT R1,R1,R1".replace("SHIFT", "SAND")
    with pytest.raises(SourceError) as caught:
        read(target, text)
    assert caught.value.problems[0].code == "DG406"
    packet = read(target, " SADD R1,R2,R3\n|SADD R1,R2,R4\n|SAND R1,R2,R5\n").packets[0]
    assert sorted(m.unit for m in packet.members) == ["SIEU", "SMAC1", "SMAC2"]


def test_memory_operands(target: Target) -> None:
    def address(text: str) -> Address:
        operand = read(target, f" VLDW {text} ,VR4").packets[0].members[0].operands[0]
        assert isinstance(operand, Address)
        return operand

    assert address("*AR3") == Address("AR3", "none")
    assert address("*+AR3") == Address("AR3", "none")
    assert address("*AR3++") == Address("AR3", "post_inc", 1)
    assert address("*AR3--[ 4 ]") == Address("AR3", "post_dec", 4)
    assert address("*--AR3[OR2]") == Address("AR3", "pre_dec", "OR2")
    assert address("*+AR3[0x10]") == Address("AR3", "plus", 16)
    assert address("*-AR3[OR1]") == Address("AR3", "minus", "OR1")


@pytest.mark.parametrize(
    ("line", "code", "column"),
    [
        ("SADDX R1, R2, R3", "DG401", 2),
        ("SADD R1, R2, R99", "DG402", 15),
        ("SBR nowhere", "DG403", 6),
        ("SADD 99, R2, R3", "DG404", 7),
        ("VLDW *+AR1[999], VR0", "DG404", 7),
        ("SNOP 0", "DG404", 7),
        ("SADD R1, R2", "DG405", 2),
        ("SADD R1, R2, VR3", "DG405", 15),
        ("SADD.M3 R1, R2, R3", "DG405", 2),
        ("[R9] SADD R1, R2, R3", "DG408", 7),
        ("[VR0] SADD R1, R2, R3", "DG408", 8),
        ("VLDW *AR9, VR0", "DG411", 7),
        ("SLDW *+AR9[OR2], R0", "DG411", 7),
        ("SADD R1, R2, R3]", "DG400", 15),
        ("???", "DG400", 2),
    ],
)
def test_complaints_have_code_and_place(target: Target, line: str, code: str, column: int) -> None:
    assert complaints(target, f" SNOP 1\n {line}\n") == [(code, 2, column)]


def test_all_problems_come_at_once(target: Target) -> None:
    text = "a:\n SADDX R1,R2,R3\n SADD R1,R2\na:\n SBR b\n"
    assert [c for c, _, _ in complaints(target, text)] == ["DG401", "DG405", "DG409", "DG403"]


def test_two_operations_on_one_unit(target: Target) -> None:
    assert complaints(target, " SADD.M1 R1,R2,R3\n | SADD.M1 R1,R2,R4\n")[0][0] == "DG406"


def test_a_close_name_is_offered(target: Target) -> None:
    with pytest.raises(SourceError) as caught:
        read(target, " VFMULAS3 VR1,VR2,VR3,VR3\n")
    assert "VFMULAS32" in caught.value.problems[0].remedy


def test_empty_text_is_refused(target: Target) -> None:
    assert complaints(target, "; nothing\n")[0][0] == "DG400"


def test_bytes_of_other_encodings_are_read(target: Target) -> None:
    raw = " SNOP 1 ; \u4e2d\u6587\n".encode("gb18030")
    assert len(assemble(raw, target).packets) == 1


def test_only_line_ends_end_lines(target: Target) -> None:
    text = "\ufeff; a\x0c b \u2028 c \x85 d\r\n SNOP 1 ; \x0b SNOP 0\r SNOP 2\r\n\x1a"
    assert [p.idle for p in read(target, text).packets] == [1, 2]


def test_a_bar_before_a_comment_is_no_member(target: Target) -> None:
    packets = read(target, " SADD R1,R2,R3\n | ; SMOV R1,R2\n|\tSMOV R4,R5\n").packets
    assert [len(p.members) for p in packets] == [2]


def test_strings_of_any_letters(target: Target) -> None:
    data = read(target, ' SNOP 1\n .data\ns: .string "\u4e2d;\\n//", "b"\n .ascii "\\101"\n').data
    assert data[0].contents == "\u4e2d;\n//\0b\0A".encode()
    assert complaints(target, " SNOP 1\n .string abc\n") == [("DG410", 2, 2)]


def test_unknown_directives_are_told(target: Target) -> None:
    assert "directive .strange" in read(target, " .strange 5\n SNOP 1\n").warnings[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(x, y, 32)", ("f", ["x", "y", 32])),
        ("f()", ("f", [])),
        ("f(0xFFFFFFFF, -2147483648, 3.4e38, inf)", ("f", [0xFFFFFFFF, -(2**31), 3.4e38, float("inf")])),
        (" g ( -0x10 , 1.5f, 2e3 );", ("g", [-16, 1.5, 2000.0])),
    ],
)
def test_calls(text: str, expected: tuple[str, list[object]]) -> None:
    assert parse_call(text) == expected


@pytest.mark.parametrize(
    "text", ["f", "f(x", "f(x+1)", "f(x,,y)", "", "f(99999999999)", "f(-0x80000001)", "f(1e400)", "f(-3.5e38)"]
)
def test_bad_calls(text: str) -> None:
    with pytest.raises(SourceError):
        parse_call(text)
