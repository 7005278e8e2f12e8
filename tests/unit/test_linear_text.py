"""Linear assembly as people write it: what is accepted, what follows from use, and how errors are told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.linear_asm import ScheduledLinear, schedule_text
from dspgen.driver.pipeline import compile_file
from dspgen.emit.linear import emit_linear
from dspgen.errors import SourceError
from dspgen.lasm.function import linear_functions
from dspgen.options import Options
from dspgen.sim.linear_evaluator import evaluate
from dspgen.sim.run import SimResult, simulate
from dspgen.target.load import isa_names, load_target

TARGET = "ft_m7002"
SUM = """
        .global total
        .input a1:a0, n
        .gen_var x, s
        .add_var p
        .output s
        SMVAGA36 a1:a0, p
        SMOVIL 0, s
.sum: .loop
        SLDW *p++[1], x
        SADD x, s, s
        SSUB 1, n, n
        [n]SBR .sum
        .endloop
        .size total, .-total
"""


def scheduled(text: str | bytes) -> ScheduledLinear:
    (function,) = schedule_text(text, load_target(TARGET), file="x.sa")
    return function


def run(text: str | bytes, *arguments: np.ndarray | int) -> SimResult:
    """Simulates the packets, after a look whether they do what the text does."""
    return compared(scheduled(text), *arguments)


def compared(function: ScheduledLinear, *arguments: np.ndarray | int) -> SimResult:
    target = load_target(TARGET)
    named = [(f"a{k}", v) for k, v in enumerate(arguments)]
    expected = evaluate(function.linear.sequence, target, named, strict=False)
    got = simulate(function.asm, target, arguments=named, strict=False)
    if function.linear.program.outputs:
        assert got.result_bits & 0xFFFFFFFF == expected.result_bits & 0xFFFFFFFF
    for name, array in expected.outputs.items():
        np.testing.assert_array_equal(got.outputs[name], array)
    return got


def refusal(text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        linear_functions(text, load_target(TARGET), "x.sa")
    return [f"{p.loc}: {p.code}: {p.message}" for p in caught.value.problems]


NUMBERS = np.arange(3, 43, dtype=np.int32)


def test_a_sum() -> None:
    function = scheduled(SUM)
    for n in (1, 2, 5, 40):
        assert compared(function, NUMBERS, n).result == NUMBERS[:n].sum()


def test_line_ends_blanks_order_and_comments() -> None:
    lines = SUM.strip().split("\n")
    head = [line for line in lines if line.strip().startswith((".input", ".gen", ".add", ".out", ".glo"))]
    rest = [line for line in lines if line not in head]
    text = "\r\n".join([*reversed(head), *rest]).replace(", ", " ,\t").replace("a1:a0", "a1 : a0")
    assert run(text + " ; the end", NUMBERS, 7).result == NUMBERS[:7].sum()
    odd = SUM.replace("SADD x", "\t  SNOP 2\n  SADD x").replace("[n]SBR", "[ n ]   SBR").rstrip("\n")
    assert run(odd.replace("0, s", "0, s ; 累加").encode("gb18030"), NUMBERS, 7).result == NUMBERS[:7].sum()


def test_the_other_spelling() -> None:
    text = SUM.replace(".global total", "@total").replace(".sum: .loop", "LOOP_total_0: 8, 40")
    text = text.replace("SBR .sum", "SBR LOOP_total_0").replace("        .endloop\n", "")
    text = text.replace("        .size total, .-total", "@ret")
    function = scheduled(text)
    assert function.name == "total" and function.scheduled.loops[-1].pipelined
    assert run(text, NUMBERS, 40).result == NUMBERS.sum()


def test_names_like_registers_and_either_half_of_a_pair() -> None:
    text = SUM.replace(" s\n", " R10\n").replace(" s,", " R10,").replace(", x", ", VR3").replace(" x", " VR3")
    text = text.replace("a1:a0", "AR7:R12").replace(
        "SMOVIL 0, R10", "SADD 8, R12, R12\n SMVAGA36 AR7:R12, p\n SMOVIL 0, R10"
    )
    assert run(text, NUMBERS, 5).result == NUMBERS[2:7].sum()


def test_pairs_of_any_names_and_a_half_as_condition() -> None:
    text = """
        .global f
        .input a1:a0, n
        .gen_var h:g, w, v
        .output v
        SMOVIL 3, h
        SMOVIL 5, w
        SMOVIL 7, g
        SMULS h, w, h:g
        SMULS g, n, w:h
        SADD g, h, v
        [g]SADD 1, v, v
        [!h]SMOVIL 9, v
        .size f, .-f
    """
    assert run(text, NUMBERS, 11).result == 15 + 165 + 1


@pytest.mark.parametrize(
    ("start", "count"),
    [
        ("SMOVIL 0, i", "SADD 1, i, i\n SLT i, n, c\n [c]SBR .l"),
        ("SMOVIL 0, i", "SADD 2, i, i\n SLT i, n, c\n [c]SBR .l"),
        ("SMOV n, i", "SADD -4, i, i\n SLT 0, i, c\n [c]SBR .l"),
        ("SMOVIL 1, i", "SADD 1, i, i\n SLT n, i, c\n [!c]SBR .l"),
        ("SMOVIL 0, i", "SLT i, n, c\n SADD 1, i, i\n [c]SBR .l"),
    ],
)
def test_loops_run_at_least_once(start: str, count: str) -> None:
    text = f"""
        .global f
        .input a1:a0, n
        .gen_var i, c, x, s
        .add_var p
        .output s
        SMVAGA36 a1:a0, p
        SMOVIL 0, s
        {start}
.l: .loop
        SLDW *p++, x
        SADD x, s, s
        {count}
        .endloop
        SADD i, s, s
        .size f, .-f
    """
    function = scheduled(text)
    assert any(loop.pipelined for loop in function.scheduled.loops)
    for n in (-3, 0, 1, 11):
        compared(function, NUMBERS, n)


def test_branches_into_the_middle_and_out_of_loops() -> None:
    text = """
        .global f
        .input a1:a0, n
        .gen_var x, s, c
        .add_var p
        .output s
        SMVAGA36 a1:a0, p
        SMOVIL 0, s
        SLT 20, n, c
        [c]SBR .half
.l: .loop
        SLDW *p++, x
        SLT 30, x, c
        [c]SBR .out
        SADD x, s, s
.half:
        SSUB 1, n, n
        [n]SBR .l
        .endloop
        SADD 1, s, s
.out:
        .size f, .-f
    """
    function = scheduled(text)
    for n in (4, 25):
        compared(function, NUMBERS, n)


def test_offsets_and_steps_beyond_the_modes() -> None:
    text = """
        .global f
        .input a1:a0, n
        .gen_var x, s
        .add_var p
        .output s
        SMVAGA36 a1:a0, p
        SLDW *+p[300], s
        SLDW *p++[290], x
        SADD x, s, s
        SLDW *--p[17], x
        SADD x, s, s
        SADD n, s, s
        .size f, .-f
    """
    long = np.arange(400, dtype=np.int32)
    assert run(text, long, 1000).result == 300 + 0 + 273 + 1000


def test_far_offsets_from_a_register_that_advances_meanwhile() -> None:
    text = """
        .global far
        .input p1:p0, q1:q0
        .gen_var a, b, c, d
        .add_var p, q
        SMVAGA36 p1:p0, p
        SMVAGA36 q1:q0, q
        SLDW *+p[300], a
        SLDW *p++[1], b
        SLDW *+p[300], c
        SLDW *p++[2], d
        SSTW a, *q++
        SSTW b, *q++
        SSTW c, *q++
        SLDW *+p[301], a
        SSTW a, *q
    """
    got = run(text, np.arange(400, dtype=np.int32), np.zeros(4, np.int32))
    assert got.outputs["a1"].tolist() == [300, 0, 301, 304]


def test_aliases_keep_their_order_unless_the_file_says_no_mdep() -> None:
    text = """
        .global f
        .input a1:a0, b1:b0, n
        .gen_var x
        .add_var p, q
        SMVAGA36 a1:a0, p
        SMVAGA36 b1:b0, q
.l: .loop
        SLDW *p++, x
        SADD 1, x, x
        SSTW x, *q++
        SSUB 1, n, n
        [n]SBR .l
        .endloop
        .size f, .-f
    """
    apart = scheduled(text.replace(".global f", ".global f\n .no_mdep")).scheduled.loops[-1]
    careful = scheduled(text).scheduled.loops[-1]
    assert apart.ii == 2 and careful.ii > 2
    same = text.replace("SMVAGA36 b1:b0, q", "SADD 4, a0, a0\n SMVAGA36 a1:a0, q")
    got = run(same, NUMBERS, NUMBERS, 30)
    np.testing.assert_array_equal(got.outputs["a0"][:31], NUMBERS[0] + np.arange(31))


def test_a_mask_keeps_lanes_in_loops() -> None:
    text = """
        .global f
        .input a1:a0, n
        .gen_var x, m, s
        .add_var p
        SMVAGA36 a1:a0, p
        VLDW *p, x
        SMOVIL 0x00F0, m
        SMVCGC m, VLR
.l: .loop
        VADD 1, x, x
        VMOVIL 7, s
        VADD s, x, x
        SSUB 1, n, n
        [n]SBR .l
        .endloop
        SMOVIL 0xFFFF, m
        SMVCGC m, VLR
        VSTW x, *p
        .size f, .-f
    """
    lanes = np.arange(16)
    expected = np.where((lanes >= 4) & (lanes < 8), lanes + 8 * 9, lanes)
    np.testing.assert_array_equal(run(text, np.arange(16, dtype=np.int32), 9).outputs["a0"], expected)


def test_errors_point_into_the_file() -> None:
    assert refusal(SUM.replace("SADD x", "SADDX x"))[0].startswith(
        "x.sa:11:9: DG343: ft_m7002 has no instruction SADDX"
    )
    assert refusal(SUM.replace("SADD x,", "SADD z,")) == ["x.sa:11:14: DG341: z is not declared"]
    assert refusal(SUM.replace("SBR .sum", "SBR .sun")) == ["x.sa:13:16: DG345: unknown label .sun"]
    assert refusal(SUM.replace("        .endloop\n", "")) == ["x.sa:9:7: DG345: a loop without its .endloop"]
    assert refusal(SUM.replace(".add_var p", ".add_var p, x")) == [
        "x.sa:5:21: DG341: x is declared twice (first in line 4)"
    ]
    assert refusal(SUM.replace(".gen_var", ".genvar"))[0] == "x.sa:4:9: DG340: unknown directive .genvar"
    (conflict,) = refusal(SUM.replace("SADD x, s, s", "VADD x, x, x"))
    assert conflict == (
        "x.sa:11:14: DG342: x would be a vector register here, "
        "but SLDW in line 10, column 23 makes it a scalar register"
    )


def test_missing_rows_are_named_with_a_template() -> None:
    with pytest.raises(SourceError) as caught:
        linear_functions(SUM.replace("SADD x, s, s", "SADD3 x, s, 4, s"), load_target(TARGET), "x.sa")
    remedy = caught.value.problems[0].remedy
    assert (
        "[instructions.SADD3]" in remedy and 'operands = { a = "R", b = "R", c = { imm = [0, 4] }, d = "R" }' in remedy
    )


def test_several_functions_in_a_file(tmp_path: Path) -> None:
    found = schedule_text(SUM + SUM.replace("total", "second"), load_target(TARGET))
    assert [f.name for f in found] == ["total", "second"]


@pytest.mark.parametrize("isa", isa_names())
def test_what_compile_writes_reads_back(isa: str, root: Path) -> None:
    target = load_target(isa)
    compiled = compile_file(str(root / "examples" / "saxpy.c"), target, Options(defines=(("N", "37"),)))
    (function,) = schedule_text(emit_linear(compiled.assembly, target), target)
    rng = np.random.default_rng(0)
    a, x, y = np.float32(0.5), *(rng.standard_normal(37).astype(np.float32) for _ in "xy")
    given = {"a": a, "alpha": a, "x": x, "y": y}
    arguments = [(p.name, given[p.name]) for p in compiled.source.params]
    first = simulate(compiled.asm, target, arguments=arguments)
    second = simulate(function.asm, target, arguments=arguments)
    for name, array in first.outputs.items():
        np.testing.assert_array_equal(second.outputs[name], array)


def test_a_stack_pointer_keeps_its_name() -> None:
    text = SUM.replace("SADD x, s, s", "SSTW x, *-AR15[3]\n SLDW *-AR15[3], x\n SADD x, s, s")
    assert run(text, NUMBERS, 6).result == NUMBERS[:6].sum()


def test_trips_that_are_promised_need_no_other_way() -> None:
    function = scheduled(SUM.replace(".sum: .loop", ".sum: .loop\n .trip 16, 40"))
    for n in (16, 17, 40):
        assert compared(function, NUMBERS, n).result == NUMBERS[:n].sum()
    assert compared(function, NUMBERS, 40).cycles < run(SUM, NUMBERS, 40).cycles


def test_a_counter_that_begins_at_zero_runs_all_numbers_through() -> None:
    """Four thousand million iterations, which are no straight code."""
    text = SUM.replace("SMOVIL 0, s", "SMOVIL 0, s\n        SMOVIL 0, n").replace(".input a1:a0, n", ".input a1:a0")
    text = text.replace(".gen_var x, s", ".gen_var x, s, n")
    assert any(loop.trip == 1 << 32 for loop in scheduled(text).scheduled.loops)


def test_no_register_is_copied_to_itself() -> None:
    text = SUM.replace(".output s", ".output t").replace(".gen_var x", ".gen_var t, x")
    (function,) = schedule_text(text.replace(".endloop", ".endloop\n SMOV s, t"), load_target(TARGET))
    assert re.search(r"\bSMOV(\.\w+)? (\w+), \2\b", function.asm) is None
    result = simulate(function.asm, load_target(TARGET), arguments=[("a", np.arange(9, dtype=np.int32)), ("n", 9)])
    assert result.result == 36
    assert result.cycles == function.scheduled.cycles or function.scheduled.cycles is None
