"""Operations that others make up mean the same in the simulator, for elements of all widths, on vectors and pairs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dspgen.errors import IsaError
from dspgen.sim.ir.derived_operations import _MEANINGS
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.ir.semantics import compile_node
from dspgen.sim.lowering.lower_instructions import Lowering
from dspgen.sim.text.samples import placed
from dspgen.target.isa.model import Instruction
from dspgen.target.isa.semantics import parse
from dspgen.target.load import load_target

TARGET = load_target("hexagon_v66")
REGISTERS = RegisterFile(TARGET)
WORDS = TARGET.instruction("VMINUB")
PAIRS = TARGET.instruction("VMPYH_ACC")


@dataclass
class State:
    """Random registers, and no memory."""

    registers: list[np.ndarray] = field(default_factory=list)
    forwarded: dict[int, np.ndarray] = field(default_factory=dict)
    held: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    address: int = 0


def written(row: Instruction, semantics: str) -> list[bytes]:
    rng = np.random.default_rng(3)
    state = State([rng.integers(0, 1 << 32, max(c.lanes, 1), dtype="u4") for c in REGISTERS.cells])
    row = replace(
        row, semantics=parse(semantics, TARGET.lanes), operands=tuple(replace(o, read_cycle=0) for o in row.operands)
    )
    writes = Lowering(placed(row, TARGET, 0), TARGET, REGISTERS, {}, {}).op(0, None).writes
    return [compile_node(w.value, state)().tobytes() for w in writes]  # type: ignore[arg-type]


CASES = [
    ("d = minu.i16(a, b)", "d = select.i16(ltu.i16(a, b), a, b)"),
    ("d = maxu.i8(a, b)", "d = select.i8(ltu.i8(b, a), a, b)"),
    ("d = maxu.i32(a, b)", "d = not.i32(minu.i32(not.i32(a), not.i32(b)))"),
    ("d = absdu.i32(a, b)", "d = sub.i32(maxu.i32(a, b), minu.i32(a, b))"),
    ("d = absdu.i8(a, b)", "d = sub.i8(maxu.i8(a, b), minu.i8(a, b))"),
    ("d = alike.i32(a)", "d = mov.i32(a)"),
    ("d = dup16.i32(a)", "d = set_high(zext16.i32(a), a)"),
    ("d = join.i16(a, b)", "d = set_high(zext16.i32(a), b)"),
    ("d = join.i8(a, b)", "d = or.i16(zext8.i16(a), mul.i16(b, 256))"),
]  # fmt: skip
PAIR_CASES = [
    *((f"d = zip.{t}(a, b)", f"d.lo = zip_lo.{t}(a, b); d.hi = zip_hi.{t}(a, b)") for t in ("i8", "i16", "i32")),
    *((f"d = unzip.{t}(a, b)", f"d.lo = even.{t}(a, b); d.hi = odd.{t}(a, b)") for t in ("i8", "i16", "f32")),
    ("d = unpack8.i16(a)", "d.lo = sext8.i16(a); d.hi = shr.i16(a, 8)"),
    ("d = unpacku8.i16(a)", "d.lo = zext8.i16(a); d.hi = shru.i16(a, 8)"),
    ("d = unpack16.i32(a)", "d.lo = sext16.i32(a); d.hi = shr.i32(a, 16)"),
    ("d = unpacku16.i32(a)", "d.lo = zext16.i32(a); d.hi = shru.i32(a, 16)"),
    ("d = mul16_pair.i32(a, b)", "d.lo = mul16.i32(a, b); d.hi = mul.i32(shr.i32(a, 16), shr.i32(b, 16))"),
    ("d = mac16_pair.i32(a, b, d)",
     "d.lo = add.i32(d.lo, mul16.i32(a, b)); d.hi = add.i32(d.hi, mul.i32(shr.i32(a, 16), shr.i32(b, 16)))"),
    ("d = pair(neg.i16(a), neg.i8(b))", "d.lo = neg.i16(a); d.hi = neg.i8(b)"),
]  # fmt: skip


@pytest.mark.parametrize(("semantics", "same"), CASES)
def test_of_registers(semantics: str, same: str) -> None:
    assert written(WORDS, semantics) == written(WORDS, same)


@pytest.mark.parametrize(("semantics", "same"), PAIR_CASES)
def test_of_pairs(semantics: str, same: str) -> None:
    assert written(PAIRS, semantics) == written(PAIRS, same)


def test_each_has_a_case() -> None:
    assert {text.split(" ")[2].split(".")[0] for text, _ in (*CASES, *PAIR_CASES)} == {*_MEANINGS, "pair(neg"}


def test_others_are_refused_with_a_remedy() -> None:
    with pytest.raises(IsaError) as caught:
        written(WORDS, "d = ld_pair.i32(a)")
    assert "can't do `ld_pair`" in str(caught.value) and "half by half" in caught.value.problems[0].remedy
