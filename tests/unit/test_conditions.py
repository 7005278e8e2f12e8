"""Branches that test what the code before them tests, and stores beside each other, in compiled code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dspgen import oracle
from dspgen.asmir.ir.function import Imm, Instr, Label, Predicate, Reg, VReg
from dspgen.backend.stages import arguments_of, simulate_kernel
from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.options import Options
from dspgen.sched.graph.predicated_branches import Conditions, shorter_choices
from dspgen.sched.machine.target_facts import Facts
from dspgen.sim.external import emulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

STEPS = """\
void f(const int x[100], int y[100], int z[1]) {
#pragma scop
  int s = 0;
  for (int i = 0; i < 100; i++) {
    if (x[i] > 3) y[i + 1 < 100 ? i : 0] = x[i] * 2 + s;
    s = x[i] > 7 ? s + 1 : s ^ x[i];
  }
  z[0] = s;
#pragma endscop
}
"""
ANY = """\
void f(int n, const int x[400], int y[400]) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] = x[i] > 3 ? x[i] : 7;
#pragma endscop
}
"""
COPIES = """\
void f(const int x[13], int y[13]) {
#pragma scop
  for (int i = 0; i < 5; i++)
    y[3 * i] = x[2 * i];
#pragma endscop
}
"""
C, D, E, P, Q = VReg("c", "R"), VReg("d", "R"), VReg("e", "R"), VReg("p", "P"), VReg("q", "P")


@pytest.fixture(scope="module")
def machine() -> Target:
    return load_target("hexagon_v66")


def packets_of(asm: str) -> list[list[str]]:
    return [packet.split("}")[0].strip().split("\n") for packet in asm.split("{\n")[1:]]


@pytest.mark.parametrize(
    ("source", "found", "most"),
    [
        (STEPS, ["if (!p0.new) jump:nt"], 570),
        (COPIES, [], 9),
    ],
)
def test_compiled_code(source: str, found: list[str], most: int, tmp_path: Path, machine: Target) -> None:
    path = tmp_path / "f.c"
    path.write_text(source, encoding="utf-8")
    compiled = compile_file(str(path), machine, Options())
    result = run_compiled(compiled, str(path), machine, Options())
    assert result.verified
    assert result.packets is not None and result.packets <= most
    assert all(text in compiled.asm for text in found)


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.needs_tool("hexagon_v66"))])
def test_loops_of_any_length(real: bool, tmp_path: Path, machine: Target) -> None:
    path = tmp_path / "f.c"
    path.write_text(ANY, encoding="utf-8")
    compiled = compile_file(str(path), machine, Options(tiler="model"))
    assert re.search(r"if \(!?cmp\.\w+\(r\d+\.new", compiled.asm)
    for n in (0, 1, 37, 128, 400):
        values = oracle.random_inputs(compiled.source, 0, {"n": n})
        wanted = oracle.run_c(str(path), compiled.source, values, ())
        found = simulate_kernel(compiled, machine, values)
        assert (found.outputs["y"] == wanted["y"]).all()
        if real:
            emulated = emulate(compiled.asm, machine, "f", arguments_of(compiled, values))
            assert (emulated.outputs["y"] == wanted["y"]).all() and found.packets == emulated.packets


def test_two_plain_stores_share_a_packet(tmp_path: Path, machine: Target) -> None:
    path = tmp_path / "f.c"
    path.write_text(COPIES, encoding="utf-8")
    compiled = compile_file(str(path), machine, Options(tiler="model"))
    assert any(sum(" memw(" in f" {line.strip()}"[:7] for line in packet) == 2 for packet in packets_of(compiled.asm))


def instr(machine: Target, row: str, *operands: VReg | int) -> Instr:
    values = tuple(Imm(v) if isinstance(v, int) else Reg(v) for v in operands)
    return Instr(machine.instruction(row), values)


def others(machine: Target, code: list[Instr], register: VReg, *, negated: bool = False) -> list[tuple[object, ...]]:
    branch = Instr(machine.instruction("S_JUMP"), (Label("t"),), Predicate(register, negated))
    found = Conditions(Facts(machine)).others(code, branch)
    return [
        (
            x.branch.instruction.id,
            *(v.vreg.name if isinstance(v, Reg) else getattr(v, "value", "t") for v in x.branch.operands),
        )
        for x in found
    ]


def test_what_a_branch_may_test_instead(machine: Target) -> None:
    compare = [instr(machine, "P_GT", P, D, E), instr(machine, "S_MUX_II", C, P, 1, 0)]
    assert others(machine, compare, C) == [
        ("J_NEQ_I_NEW", "c", 0, "t"),
        ("J_IF", "p", "t"),
        ("J_GT_R_NEW", "d", "e", "t"),
        ("J_GT_S_NEW", "d", "e", "t"),
    ]
    turned = [compare[0], instr(machine, "S_MUX_II", C, P, 0, 1)]
    assert [x[0] for x in others(machine, turned, C)] == ["J_NEQ_I_NEW", "J_UNLESS", "J_NGT_R_NEW", "J_NGT_S_NEW"]
    assert [x[0] for x in others(machine, turned, C, negated=True)][1:3] == ["J_IF", "J_GT_R_NEW"]
    small = [instr(machine, "S_EQ_I", C, D, 5)]
    assert others(machine, small, C)[1:] == [("J_EQ_I_NEW", "d", 5, "t")]
    large = [instr(machine, "S_EQ_I", C, D, 50)]
    assert len(others(machine, large, C)) == 1


def test_what_has_changed_since_is_not_tested(machine: Target) -> None:
    compare = [instr(machine, "P_GT", P, D, E), instr(machine, "S_MUX_II", C, P, 1, 0)]
    assert [x[0] for x in others(machine, [*compare, instr(machine, "P_EQ", P, D, D)], C)] == [
        "J_NEQ_I_NEW",
        "J_GT_R_NEW",
        "J_GT_S_NEW",
    ]
    assert [x[0] for x in others(machine, [*compare, instr(machine, "S_SET", E, 3)], C)] == ["J_NEQ_I_NEW", "J_IF"]
    kept = [*compare, instr(machine, "S_MOV_IF", Q, C, D)]
    assert [x[0] for x in others(machine, kept, C)] == ["J_NEQ_I_NEW"]


def a_choice(machine: Target) -> list[Instr]:
    """By a number that a comparison made."""
    return [
        instr(machine, "P_GT", P, D, E),
        instr(machine, "S_MUX_II", C, P, 1, 0),
        instr(machine, "P_EQ_I", Q, C, 0),
        instr(machine, "S_MUX", VReg("x", "R"), Q, D, E),
    ]


def test_choices_test_what_made_the_number(machine: Target) -> None:
    code = a_choice(machine)
    made = Conditions(Facts(machine)).shortened(code)
    assert made[:3] == code[:3]
    assert made[3] == instr(machine, "S_MUX", VReg("x", "R"), P, E, D)
    # Not if the register holds something else by then, or many others were made meanwhile.
    other = [*code[:3], instr(machine, "P_EQ", P, D, D), code[3]]
    assert Conditions(Facts(machine)).shortened(other) == other
    many = [*code[:3], *(instr(machine, "P_EQ", VReg(f"p{k}", "P"), D, D) for k in range(4)), code[3]]
    assert Conditions(Facts(machine)).shortened(many) == many


def test_numbers_that_are_read_elsewhere_stay(machine: Target) -> None:
    code = a_choice(machine)
    conditions = Conditions(Facts(machine))
    result = frozenset({(VReg("x", "R"), "")})
    assert [i.instruction.id for i in shorter_choices(code, result, conditions) if isinstance(i, Instr)] == [
        "P_GT",
        "S_MUX",
    ]
    kept = shorter_choices(code, result | {(C, "")}, conditions)
    assert [i.instruction.id for i in kept if isinstance(i, Instr)] == ["P_GT", "S_MUX_II", "S_MUX"]
