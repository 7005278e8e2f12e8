"""What users are told of each loop: lanes, or the reason why not, with a pair of iterations."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.errors import DspgenError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.remarks.vectorization_report import Verdict, explain_lanes, one_for_each
from dspgen.sched.ir.packets import Packet
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.tiling.candidates import Candidate, Choice, Trial
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.support.location import Loc, PlantError
from plant_core.tile_plan.plan import CompPlan, LoopShape
from tests.support.fuzz_cases import random_case


def verdicts(text: str, folder: Path, target: Target, *, fp: str = "reassoc") -> list[tuple[str, str]]:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    remarks = compile_file(str(path), target, Options(fp="strict" if fp == "strict" else "reassoc")).remarks
    return [(r.kind, r.message) for r in remarks if r.kind in ("vectorized", "not-vectorized")]


def scalar_verdict(body: str, folder: Path, target: Target, *, reassoc: bool = True) -> str:
    """The reason that is told of the only loop where nothing is across lanes."""
    path = folder / "f.c"
    path.write_text(f"void f(float a[64], float b[64], int p[64]) {{ {body} }}", encoding="utf-8")
    func = read_c(str(path))
    (nest,) = nests(func)
    plain = Candidate(tuple((n, CompPlan(func.comp(n).iters)) for n in nest.names), 1.0, "plain")
    choice = Choice(nest.names, plain, (Trial("plain", 1.0, 100.0),))
    (found,) = explain_lanes(nest, choice, memory_dependences(func), target, reassoc=reassoc)
    assert found.kind == "not-vectorized"
    return found.message


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "for (int i = 1; i < 64; i++) a[i] = a[i - 1] * a[i - 1] + b[i];",
            "iteration 2 reads a[1], which iteration 1 writes",
        ),
        ("for (int i = 0; i < 64; i++) a[p[i]] += b[i];", "reads an element of a, which iteration 0 may write"),
        ("for (int i = 0; i < 64; i++) b[0] = a[i];", "all iterations write one element of b"),
        ("for (int i = 0; i < 64; i++) a[p[i]] = a[i] + b[i];", "reads a[1], which iteration 0 may write"),
        (
            "for (int i = 1; i < 64; i++) { a[i] = b[i - 1]; b[i] = a[i] + 1.0f; }",
            "iteration 2 reads b[1], which iteration 1 writes",
        ),
    ],
)
def test_dependences_are_told_by_a_pair(body: str, reason: str, tmp_path: Path, ft_m7002: Target) -> None:
    message = scalar_verdict(body, tmp_path, ft_m7002)
    assert message.startswith("not across i: ") and message.endswith(reason)


def test_strict_sums_keep_their_order(tmp_path: Path, ft_m7002: Target) -> None:
    body = "for (int i = 0; i < 64; i++) b[0] += a[i];"
    assert "--fp strict" in scalar_verdict(body, tmp_path, ft_m7002, reassoc=False)


def test_lanes_are_told_with_what_is_special(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(const float a[128], float b[64]) { for (int i = 0; i < 64; i++) b[i] = a[2 * i] * 3.0f; }"
    ((kind, message),) = verdicts(text, tmp_path, ft_m7002)
    assert kind == "vectorized" and message.startswith("across i: 16 lanes, reads a in steps of 2")


def test_one_verdict_for_each_loop_of_the_text() -> None:
    here, there = Loc("f.c", 3, 1), Loc("f.c", 9, 1)
    found = [
        Verdict(here, "not-vectorized", "the loop has one iteration"),
        Verdict(here, "vectorized", "across i: 16 lanes"),
        Verdict(there, "vectorized", "across i: 16 lanes"),
        Verdict(there, "not-vectorized", "not across i: why"),
    ]
    both = Verdict(there, "vectorized", "in part: across i: 16 lanes; the rest: not across i: why")
    assert one_for_each(found) == (found[1], both)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "int k = 0; while (k < 64 && r[k / 2] > 0) { r[k] = k; k++; }",
            "iteration 1 needs to know whether the loop goes on, which iteration 0 decides",
        ),
        (
            "for (int i = 0; i < 64; i++) { if (r[i / 2] < 0) return; r[i] += a[i] > 1; }",
            "iteration 1 needs to know whether the loop goes on, which iteration 0 decides",
        ),
    ],
    ids=["while", "return"],
)
def test_variables_that_the_text_does_not_have_are_told_in_words(
    body: str, reason: str, tmp_path: Path, ft_m7002: Target
) -> None:
    found = verdicts(f"void f(const float a[64], int r[64]) {{ {body} }}", tmp_path, ft_m7002)
    assert any(kind == "not-vectorized" and message.endswith(reason) for kind, message in found), found
    assert not any("going" in message or "done" in message for _, message in found)


def test_searches_are_told_by_the_loop_s_own_variable(tmp_path: Path, ft_m7002: Target) -> None:
    body = "int k = 0; while (k < 64 && a[k] > 0) k++; r[0] = k;"
    ((kind, message),) = verdicts(f"void f(const float a[64], int r[64]) {{ {body} }}", tmp_path, ft_m7002)
    assert kind == "vectorized" and "across k_" in message and "turn" not in message


def test_two_loops_across_lanes(tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        "void f(float a[64]) { for (int i = 0; i < 16; i++) for (int j = 0; j < 4; j++) a[4 * i + j] *= 2.0f; }",
        encoding="utf-8",
    )
    func = read_c(str(path))
    (nest,) = nests(func)
    shape = (("i", LoopShape(4, lane=True)), ("j", LoopShape(4, inner=True)))
    candidate = Candidate((("S0", CompPlan(("i", "j"), (shape,))),), 1.0, "two")
    choice = Choice(("S0",), candidate, (Trial("two", 1.0, 10.0, "", ("S0",)), Trial("plain", 1.0, 35.0)))
    (found,) = explain_lanes(nest, choice, memory_dependences(func), ft_m7002, reassoc=True)
    assert found.message == "across i and j: 16 lanes; 3.5 times as fast as scalar code"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("(a[i - 1] + b[i]) / 1.9", "1.9f is a float"),
        ("a[i - 1] * 0.5 + b[i]", "0.5f is a float"),
        ("a[i - 1] * a[i - 1] * 1.9 + b[i]", "iteration 2 reads a[1], which iteration 1 writes"),  # in float, too
        ("a[i - 1] * a[i - 1] * 1.9f + b[i]", "iteration 2 reads a[1], which iteration 1 writes"),
    ],
)
def test_a_constant_of_type_double_is_told_where_it_keeps_a_statement_from_lanes(
    value: str, told: str, tmp_path: Path, ft_m7002: Target
) -> None:
    message = scalar_verdict(f"for (int i = 1; i < 64; i++) a[i] = {value};", tmp_path, ft_m7002)
    assert message.endswith(told)


def test_a_loop_is_vectorized_in_part_where_one_of_its_statements_is_not(tmp_path: Path, ft_m7002: Target) -> None:
    found = verdicts(MIXED, tmp_path, ft_m7002)
    assert len(found) == 1 and found[0][0] == "vectorized"
    assert found[0][1].startswith("in part: across i: 16 lanes") and "the rest: line 4 not across i" in found[0][1]


MIXED = """void f(float a[512], const float b[512], float c[512]) {
  for (int i = 1; i < 512; i++) {
    a[i] = ((((b[i] * 3.0f + 2.0f) * b[i] + 1.0f) * b[i] - 4.0f) * b[i] + 5.0f) * b[i] - 7.0f;
    c[i] = c[i - 1] * c[i - 1] + 1.0f;
  }
}
"""
TOLD = {
    "mixed": MIXED,
    "triangle": "void f(float a[40][40], float b[40]) { for (int i = 0; i < 40; i++) for (int j = 0; j <= i; j++) "
    "b[i] += a[i][j] * 2.0f; }",
    "induction": "void f(int a[300]) { int k = 0; for (int i = 0; i < 300; i++) { k += i; a[i] = k; } }",
    "rows": "void f(float a[64][8], const float b[64][8]) { for (int i = 0; i < 64; i++) for (int j = 0; j < 8; j++) "
    "a[i][j] = b[i][j] * 2.0f; }",
    "double": "void f(float a[300], const float b[300]) { for (int i = 0; i < 300; i++) a[i] = b[i] / 1.9; }",
    "sum": "void f(const float a[300], float r[1]) { for (int i = 0; i < 300; i++) r[0] += a[i]; }",
    "sums of rows": "void f(const float a[12][20], float r[12]) { for (int i = 0; i < 12; i++) { r[i] = 0.0f;\n"
    "for (int j = 0; j < 20; j++) r[i] += a[i][j] * a[i][j]; } }",
    "chain": "void f(float a[300], const float b[300]) { for (int i = 1; i < 300; i++) a[i] = a[i-1]*a[i-1] + b[i]; }",
}


MACHINES = ("ft_m7002", "ft_mt3000", "ft_lite", "hexagon_v66")
QUICK = {
    *((name, "ft_m7002") for name in TOLD),
    ("mixed", "ft_lite"),
    ("induction", "hexagon_v66"),
    ("sum", "ft_mt3000"),
}
SEEDS = 40


def assert_told_of_the_instructions(path: Path, target: Target, data: str = "onchip") -> int:
    """Of a loop that is vectorized vector units run some instructions, of others less than half; how many are told."""
    compiled = compile_file(str(path), target, Options(data=data))
    units = {name for unit in target.units if unit.side == "vector" for name in unit.members}
    packets = [line for line in compiled.scheduled.lines if isinstance(line, Packet)]
    placed = [p for packet in packets for p in packet.members if p.loc is not None]
    told = [r for r in compiled.remarks if r.kind in ("vectorized", "not-vectorized")]
    for remark in told:
        mine = [p for p in placed if p.loc == remark.loc]
        if not mine and compiled.choices and remark.kind == "not-vectorized":
            unrolled = remark.message.startswith("unrolled, nothing of it on lanes: ")
            assert unrolled or remark.message == "no instruction is left of it"
            continue
        mine = mine or placed  # the statement that needs its value has its instructions
        share = sum(p.unit in units for p in mine) / len(mine)
        assert share > 0 if remark.kind == "vectorized" else share < 0.5, (remark, share)
    return len(told)


@pytest.mark.parametrize(
    ("name", "isa"),
    [
        pytest.param(name, isa, marks=() if (name, isa) in QUICK else pytest.mark.slow)
        for name in TOLD
        for isa in MACHINES
    ],
)
def test_verdicts_agree_with_the_instructions_that_are_emitted(name: str, isa: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(TOLD[name], encoding="utf-8")
    assert assert_told_of_the_instructions(path, load_target(isa))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_verdicts_of_random_programs_agree_with_the_instructions(seed: int, tmp_path: Path) -> None:
    isa = MACHINES[seed % len(MACHINES)]
    case, source = random_case(f"remarks/{seed}", [isa])
    path = tmp_path / "f.c"
    path.write_text(source.text, encoding="utf-8")
    try:
        assert_told_of_the_instructions(path, load_target(isa), case.data)
    except (DspgenError, PlantError):
        pytest.skip("refused")
