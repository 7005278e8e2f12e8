"""The files around the packets: header, manifest, loop blocks, what a caller must see to, linear text."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dspgen.asmir.ir.function import Function, Imm, Instr, Loop, Mem, MemRef, Reg, Stream, VReg
from dspgen.emit.asm import loop_block
from dspgen.emit.header import Parameter, Signature, emit_header
from dspgen.emit.linear import emit_linear
from dspgen.emit.manifest import emit_manifest
from dspgen.emit.needs import needs, relies_on_old_values
from dspgen.sched.ir.packets import LabelLine, LoopReport, Nop, Packet, Placed, Scheduled
from dspgen.target.isa.model import Instruction, Target
from dspgen.target.query.instructions import Index
from plant_core.support.location import Loc

SIGNATURE = Signature(
    "blur",
    (
        Parameter("image", "u8", (8, 4), const=True),
        Parameter("scale", "f32", None),
        Parameter("out", "f32", (32,)),
    ),
    "blur.c",
)
REPORT = LoopReport(
    label="loop_1", loc=Loc("blur.c", 7), pipelined=True, ii=12, res_mii=11, rec_mii=6, stages=3, unroll=2, trip=64,
    resource_bounds=(("A", 11), ("B", 4)), tried=((11, "no room for the branch"),), prolog=24, epilog=30,
)  # fmt: skip


def copies(target: Target) -> tuple[Instruction, tuple[str, ...]]:
    """A scalar sum whose operands are all registers, and the scalar registers."""
    cls = target.abi.scalar_class
    match = Index(target).find("d = add.i32(a, b)", {"a": cls, "b": cls, "d": cls})[0]
    return match.instruction, target.register_class(cls).names


def slow(target: Target) -> tuple[Instruction, tuple[str, ...]]:
    cls = target.abi.scalar_class
    match = Index(target).find("d = mul.f32(a, b)", {"a": cls, "b": cls, "d": cls})[0]
    return match.instruction, target.register_class(cls).names


def place(instruction: Instruction, *operands: str) -> Packet:
    return Packet((Placed(instruction, instruction.units[0], operands),))


def test_header_compiles(tmp_path: Path, ft_m7002: Target) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    (tmp_path / "blur.h").write_text(emit_header(SIGNATURE, ft_m7002, ("arrays do not overlap",)))
    (tmp_path / "use.c").write_text(
        '#include "blur.h"\nvoid use(const uint8_t image[8][4], float out[32]) { blur(image, 2.0f, out); }\n'
    )
    subprocess.run([compiler, "-Wall", "-Werror", "-c", "use.c", "-o", "use.o"], check=True, cwd=tmp_path)


def test_loop_block_says_what_bound_it() -> None:
    text = "\n".join(loop_block(REPORT))
    for row in ("Loop source line", "Loop Carried Dependency Bound(^)", "Known Trip Count", "Loop Unroll Multiple"):
        assert row in text
    assert "ii = 11   Did not find schedule: no room for the branch" in text
    assert "ii = 12   Schedule found with 3 iterations in parallel" in text
    assert "A                              : 11*" in text
    assert "Prolog 24 cycles, epilog 30 cycles" in text


def test_manifest_is_json(ft_m7002: Target) -> None:
    found = json.loads(emit_manifest(Scheduled("blur", (), (REPORT,), 500), ft_m7002, SIGNATURE))
    assert found["parameters"][0] == {
        "name": "image", "type": "u8", "shape": [8, 4], "const": True, "register": ft_m7002.abi.arguments[0],
    }  # fmt: skip
    assert found["cycles_estimate"] == 500 and found["loops"][0]["ii"] == 12


@pytest.mark.parametrize(("wait", "expected"), [(0, True), (1, True), (20, False)])
def test_reads_of_old_values_along_the_text(wait: int, expected: bool, ft_m7002: Target) -> None:
    """A register read before the write to it has landed: interrupts would change the result."""
    (multiply, r), (add, _) = slow(ft_m7002), copies(ft_m7002)
    between = (Nop(wait),) if wait else ()
    lines = (place(multiply, r[1], r[2], r[5]), *between, place(add, r[5], r[5], r[6]))
    assert relies_on_old_values(lines, ft_m7002) is expected


def test_reads_of_old_values_round_a_loop(ft_m7002: Target) -> None:
    """The read comes first in the text; only the next iteration meets the write in flight."""
    (multiply, r), (add, _) = slow(ft_m7002), copies(ft_m7002)
    branch = Index(ft_m7002).branch()
    assert branch is not None
    jump = place(branch.instruction, "@loop_1")
    delay = ft_m7002.pipeline.branch_delay
    body = (place(add, r[5], r[5], r[6]), jump, Nop(delay - 1), place(multiply, r[1], r[2], r[5]))
    assert relies_on_old_values((LabelLine("loop_1"), *body), ft_m7002)
    apart = (place(add, r[5], r[5], r[6]), place(multiply, r[1], r[2], r[5]), Nop(9), jump, Nop(delay))
    assert not relies_on_old_values((LabelLine("loop_1"), *apart), ft_m7002)


def test_needs_tell_alignment_and_memory(ft_m7002: Target) -> None:
    found = " / ".join(needs(Scheduled("blur", (), (), 1), ft_m7002))
    assert "do not overlap" in found and "arrays lie in memory" in found and "interrupts" not in found


def test_linear_text_of_a_loop(ft_m7002: Target) -> None:
    """Counter, branch and stream advance stand in the text; names stay clear of the machine's registers."""
    index, abi = Index(ft_m7002), ft_m7002.abi
    add, registers = copies(ft_m7002)
    load = index.find("d = ld.i32(m)", {"d": abi.scalar_class})[0]
    base = VReg("a.x", ft_m7002.address_modes.base_classes["scalar"])
    total, value = VReg(registers[3], abi.scalar_class), VReg("value", abi.scalar_class)
    pointer = VReg("p_x", abi.pointer_class)
    mem = Mem(base, 8, MemRef("x", 8, (), 0, 1, 4))
    body = (
        Instr(load.instruction, (mem, Reg(value))),
        Instr(add, (Reg(value), Reg(total), Reg(total)), loc=Loc("sum.c", 4)),
    )
    loop = Loop("loop_1", "i", 1, 40, (Stream(base, 400, "scalar"),), body, loc=Loc("sum.c", 3))
    text = emit_linear(Function("sum", ((pointer, abi.arguments[0]),), (loop,)), ft_m7002)
    lines = [line.split(ft_m7002.text.comment)[0].strip() for line in text.splitlines()]
    renamed = f"{registers[3]}_v2"
    assert ".input p_x_1:p_x_0" in lines
    assert f"{add.mnemonic} value, {renamed}, {renamed}" in lines
    assert ".loop_1: .loop" in lines and ".endloop" in lines
    assert any("*+a_x[2]" in line for line in lines)
    assert any(line.startswith(ft_m7002.predicates.text.replace("{r}", "count_loop_1")) for line in lines)
    assert sum("400" in line for line in lines) == 1
    assert lines[-1] == ft_m7002.text.size_directive.replace("{name}", "sum")


def test_immediates_print_by_their_operand(ft_m7002: Target) -> None:
    steps = Index(ft_m7002).load_constant(ft_m7002.abi.scalar_class, 1)[0]
    register = VReg("one", ft_m7002.abi.scalar_class)
    items = tuple(
        Instr(step.instruction, tuple(Reg(register) if o is None else Imm(o) for o in step.operands)) for step in steps
    )
    assert "one" in emit_linear(Function("f", (), items), ft_m7002)
