"""Finding instructions by their semantics."""

from __future__ import annotations

import pytest

from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.instructions import Index, Match

TARGET = load_target("ft_m7002")
INDEX = Index(TARGET)


def ids(matches: list[Match]) -> list[str]:
    return [m.instruction.id for m in matches]


@pytest.mark.parametrize(
    ("pattern", "kinds", "found"),
    [
        ("d = add.i32(a, b)", {"a": "scalar"}, ["SADD", "SADDU"]),
        ("x = add.i32(y, z)", {"x": "vector"}, ["VADD"]),
        ("d = sub.i32(b, a)", {"a": "immediate", "b": "scalar"}, ["SSUB", "SSUBU"]),
        ("d = ld.i32(m)", {}, ["SLDW"]),
        ("vst.i32(m, 1, 0, a)", {}, ["VSTW"]),
        ("d = mac.f32(a, b, c)", {"d": "vector"}, ["VFMULAS32"]),
        ("d.lo = vld.i32(m, 2, 0); d.hi = vld.i32(m, 2, 1)", {}, ["VLDDWM2"]),
        ("d.lo = vld.i32(m, 1, 0); d.hi = vld.i32(m, 1, lanes)", {"d": "vector_pair"}, ["VLDDW"]),
        ("d = vld.i64(m, 1, 0)", {}, ["VLDDWM2"]),
        ("d = bcast.f64(a)", {"a": "scalar_pair"}, ["SVBCAST2"]),
        ("d = perm.i16(a, b, SMR)", {}, ["VSHUFH"]),
        ("d = mov.i32(a)", {"d": "VLR"}, ["SMVCGC_MASK"]),
        ("d = mov.i32(a)", {"d": ("VLR", "SMR")}, ["SMVCGC_MODE", "SMVCGC_MASK"]),
        ("d = add.f32(a, a)", {}, []),
        ("d = xor.i32(b, shl.i32(1, a))", {}, []),
    ],
)
def test_patterns(pattern: str, kinds: dict[str, str], found: list[str]) -> None:
    assert ids(INDEX.find(pattern, kinds)) == found


def test_rows_for_the_assembler_alone_are_found_on_request() -> None:
    assert ids(INDEX.find("d = xor.i32(b, shl.i32(1, a))", assembler_only=True)) == ["VBEX"]


def test_bindings_name_the_rows_operands() -> None:
    (match,) = INDEX.find("result = sub.f32(x, y)", {"x": "scalar"})
    assert match.binding == {"result": "d", "x": "b", "y": "a"}
    assert match.operand("x").name == "b"


def run_constant(target: Target, cls: str, value: int) -> set[int]:
    """What each way to load the constant leaves in the register."""
    found = set()
    for steps in Index(target).load_constant(cls, value):
        register = 0
        for step in steps:
            (number,) = (o for o in step.operands if o is not None)
            expr = step.instruction.semantics[0].value
            if expr.op == "set_high":
                register = (register & 0xFFFF) | (number & 0xFFFF) << 16
            else:
                bits = expr.args[1].value
                register = number & ((1 << bits) - 1)
                register -= (register >> (bits - 1)) << bits
                register &= 0xFFFFFFFF
        found.add(register)
    return found


@pytest.mark.parametrize("cls", ["R", "VR"])
@pytest.mark.parametrize(
    "value", [0, 1, -1, 32767, 32768, 65535, -32769, 0x3F800000, -(1 << 31), 0xFFFFFFFF, 123456789]
)
def test_constants(cls: str, value: int) -> None:
    assert run_constant(TARGET, cls, value) == {value & 0xFFFFFFFF}


def test_short_constants_come_first_and_take_one_step() -> None:
    assert len(INDEX.load_constant("R", -5)[0]) == 1
    assert all(len(way) == 2 for way in INDEX.load_constant("R", 65535))
    assert INDEX.load_constant("ARS", 1) == []


def test_conveniences() -> None:
    assert ids(INDEX.move("R")) == ["SMOV"]
    assert ids(INDEX.move("VR")) == ["VMOV"]
    assert ids(INDEX.move("ORV")) == ["SMVAAA"]
    assert INDEX.move("RP") == []
    assert ids(INDEX.add_immediate("ARV")) == ["SADD_LS", "SADDA_V"]
    assert ids(INDEX.subtract_immediate("R")) == ["SSUB", "SSUBU"]
    assert ids(INDEX.address_add("ARS")) == ["SADDA_R_S"]
    branch, back = INDEX.branch(), INDEX.branch_register()
    assert branch is not None and branch.instruction.branch
    assert back is not None and back.instruction.id == "SBR_R"
