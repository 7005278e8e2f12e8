"""The rules of the machine, one small program each, on both engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.sim.cgen import static_states as states
from dspgen.sim.run import Engine, SimResult, cycles_only, simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

ENGINES: tuple[Engine, ...] = ("python", "native")
RETURN = "\n SBR R62\n SNOP 6\n"


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("ft_m7002")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


def go(target: Target, engine: Engine, text: str, *values: object, strict: bool = False, **more: object) -> SimResult:
    arguments = [(f"x{i}", v) for i, v in enumerate(values)]
    return simulate(
        ".global f\nf:\n" + text, target, arguments=arguments, engine=engine, strict=strict, file="f.s", **more
    )


def refused(target: Target, engine: Engine, text: str, *values: object, **more: object) -> str:
    with pytest.raises(SourceError) as caught:
        go(target, engine, text, *values, **more)
    return caught.value.render()


def test_a_register_keeps_its_old_value_until_the_write_lands(target: Target, engine: Engine) -> None:
    # The product (3 cycles) of 5 and 7 is read one cycle early: the 5 is still there.
    body = " SMOVIL 7, R11\n SMULIS R10, R11, R10\n SNOP {n}\n SADD.M1 R10, R10, R12\n SMOV.M1 R12, R10\n"
    assert go(target, engine, body.format(n=1) + RETURN, 5).result == 10
    assert go(target, engine, body.format(n=2) + RETURN, 5).result == 70


def test_all_members_of_a_packet_read_before_any_writes(target: Target, engine: Engine) -> None:
    body = " SMOV.M1 R10, R12\n | SMOV.M2 R12, R10\n"
    result = go(target, engine, body + RETURN, 1, 2)
    assert (result.result, int(result.registers["R12"][0])) == (2, 1)


def test_the_cycles_run_through_the_delay_slots_of_the_return(target: Target, engine: Engine) -> None:
    result = go(target, engine, RETURN)
    assert (result.cycles, result.packets, result.instructions, result.idle) == (7, 2, 1, 6)
    assert result.unit_busy["SBR"] == pytest.approx(1 / 7)


def test_a_branch_may_land_inside_the_span_of_a_nop(target: Target, engine: Engine) -> None:
    body = " SBR there\n SNOP 4\n SNOP 7\n SMOVIL 1, R10\nthere:\n"
    result = go(target, engine, body + RETURN, 9)
    assert (result.result, result.cycles) == (9, 14)


def test_delay_slots_run_and_a_false_branch_does_not_count(target: Target, engine: Engine) -> None:
    body = (
        " SMOVIL 3, R1\n"
        "again:\n [R1] SBR again\n [!R1] SBR R62\n | [R1] SSUB 1, R1, R1\n SADD.M1 R12, R10, R10\n SNOP 5\n SNOP 1\n"
    )
    result = go(target, engine, body, 0, 5)
    assert result.result == 20


def test_a_false_predicate_leaves_the_destination(target: Target, engine: Engine) -> None:
    body = " SMOVIL 0, R1\n [R1] SMOVIL 5, R10\n [!R1] SMOVIL 6, R12\n"
    result = go(target, engine, body + RETURN, 1, 2)
    assert (result.result, int(result.registers["R12"][0])) == (1, 6)


def test_lane_predicates_and_the_lane_mask_select_lanes(target: Target, engine: Engine) -> None:
    body = """
 SMVAGA36 R11:R10, AR0
 SMOVIL 0x00FF, R20
 VMOVIL 7, VR5
 VLDW *AR0, VR0
 SNOP 7
 [!VR0] VMOVIL 9, VR5
 SMVCGC R20, VLR
 SNOP 4
 VSTW VR5, *AR0
"""
    memory = np.array([0, 1] * 16, dtype=np.int32)
    result = go(target, engine, body + RETURN, memory)
    assert result.outputs["x0"].tolist() == [9, 7] * 4 + [0, 1] * 12


def test_post_increment_uses_then_updates_and_offsets_scale(target: Target, engine: Engine) -> None:
    body = " SMVAGA36 R11:R10, AR8\n SNOP 1\n SLDW *AR8++[2], R20\n SLDW *+AR8[1], R21\n SLDH *--AR8[1], R22\n SNOP 6\n"
    body += " SADD.M1 R20, R21, R21\n SADD.M1 R21, R22, R10\n"
    assert go(target, engine, body + RETURN, np.array([1, -65536, 20, 300], dtype=np.int32)).result == 300


def test_a_load_gets_what_the_cycle_before_stored(target: Target, engine: Engine) -> None:
    body = " SMVAGA36 R11:R10, AR8\n SNOP 1\n SSTW R12, *AR8\n SLDW *AR8, R10\n SNOP 5\n"
    assert go(target, engine, body + RETURN, np.zeros(4, dtype=np.int32), 77).result == 77


def test_vector_pairs_interleave(target: Target, engine: Engine) -> None:
    body = " SMVAGA36 R11:R10, AR0\n SNOP 1\n VLDDWM2 *AR0, VR5:VR4\n SNOP 7\n VSTDW VR5:VR4, *AR0\n"
    result = go(target, engine, body + RETURN, np.arange(32, dtype=np.int32))
    assert result.outputs["x0"].tolist() == [*range(0, 32, 2), *range(1, 32, 2)]


def test_half_word_literals(target: Target, engine: Engine) -> None:
    def value(*moves: str) -> int:
        return go(target, engine, "\n".join(moves) + RETURN, 0).result_bits & 0xFFFFFFFF

    assert value(" SMOVIL -6568, R10") == 0xFFFFE658
    assert value(" SMOVIL 16, R10", " SMOVIH 16, R10") == 16
    assert value(" SMOVIL 0, R10", " SMOVIH 0x40160000, R10") == 0x40160000
    assert value(" SMOVIL 0, R10", " SMOVIH 0x4016, R10") == 0x40160000
    assert value(" SMOVIL 1075183616, R10", " SMOVIH 1075183616, R10") == 1075183616


def test_multiply_add_rounds_once(target: Target, engine: Engine) -> None:
    tiny = np.float32(2**-12)
    values = [np.float32(1) + tiny, np.float32(1) - tiny, np.float32(-1)]
    result = go(target, engine, " SFMULAS32 R10, R12, R14, R10\n SNOP 5\n" + RETURN, *values)
    assert result.result_f32 == -(2.0**-24)


def test_doubles_pass_in_pairs(target: Target, engine: Engine) -> None:
    result = go(target, engine, " SFMULD R11:R10, R13:R12, R11:R10\n SNOP 5\n" + RETURN, np.float64(1.1), np.float64(3))
    assert result.result_f64 == 1.1 * 3


def test_calls_return_through_a_label_in_a_register(target: Target, engine: Engine) -> None:
    body = """
 SMOV.M1 R62, R20
 SMOVIL back, R62
 SMOVIH back, R62
 SBR double
 SNOP 6
back:
 SMOV.M1 R20, R62
 SADD.M1 1, R10, R10
 SBR R62
 SNOP 6
double:
 SBR R62
 SADD.M1 R10, R10, R10
 SNOP 5
"""
    assert go(target, engine, body, 20).result == 41


def test_data_directives_and_symbols(target: Target, engine: Engine) -> None:
    body = """
 SMOVIL table+4, R20
 SMOVIH table+4, R20
 SMVAGA32 R20, AR8
 SNOP 1
 SLDW *AR8, R10
 SNOP 5
 SBR R62
 SNOP 6
 .data
 .align 8
table: .word 5, 0x2A
"""
    assert go(target, engine, body).result == 42


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (
            " SMULIS R10, R10, R11\n SNOP 1\n SMOV R10, R11\n",
            "DG422",
            "two writes land on R11 in one cycle, by SMOV and by SMULIS of line 3",
        ),
        (" SMVAGA36 R13:R12, AR8\n SNOP 1\n SLDW *AR8, R20\n", "DG420", "outside its memory: "),
        (" SADD 4, R10, R13\n SMVAGA32 R13, AR8\n SNOP 1\n SLDDW *AR8, R21:R20\n", "DG421", "needs a multiple of 8"),
        (" SBR f\n SBR f\n", "DG423", "another taken branch"),
        (" SMOVIL 8, R20\n SBR R20\n", "DG427", "no label's address"),
        (" VFCREAL32.M1 VR3:VR2, VR5:VR4, VR6\n VFCREAL32.M1 VR3:VR2, VR5:VR4, VR7\n", "DG428", "still holds it"),
    ],
)
def test_refusals(target: Target, engine: Engine, body: str, code: str, words: str) -> None:
    text = refused(target, engine, body + RETURN, np.zeros(4, dtype=np.int32), 12, strict=code == "DG421")
    assert f"error[{code}]" in text
    assert words in text
    assert text.startswith("f.s:")


def test_a_misaligned_address_is_rounded_down_to_a_word_in_text_that_is_not_strict(
    target: Target, engine: Engine
) -> None:
    body = " SADD 6, R10, R13\n SMVAGA32 R13, AR8\n SNOP 1\n SLDDW *AR8, R11:R10\n SNOP 5\n"
    result = go(target, engine, body + RETURN, np.array([1, 2, 3, 4], dtype=np.int32))
    assert result.result_bits == 3 << 32 | 2
    assert [w for w in result.warnings if "multiple of 8; the address is rounded down to a multiple of 4" in w]


def test_a_predicated_write_may_agree_with_another_of_its_cycle(target: Target, engine: Engine) -> None:
    body = " SMOVIL 1, R1\n [R1] SMOVIL {n}, R10\n | SMOV.M1 R12, R10\n"
    assert go(target, engine, body.format(n=8) + RETURN, 0, 8).result == 8
    assert "DG422" in refused(target, engine, body.format(n=9) + RETURN, 0, 8)


def test_symbols_of_other_files_are_told_and_fault_when_used(target: Target, engine: Engine) -> None:
    result = go(target, engine, " SMOVIL.L sinf+4, R20\n SMOVIH.L sinf+4, R20\n" + RETURN)
    assert "sinf is not defined in this file" in result.warnings[0]
    body = " SMOVIL.L sinf, R20\n SMOVIH.L sinf, R20\n SBR R20\n"
    assert "sinf, which is not defined" in refused(target, engine, body + RETURN)
    assert "DG427" in refused(target, engine, " .extern g\n SBR g\n" + RETURN)


def test_writes_that_exclude_each_other_may_land_together(target: Target, engine: Engine) -> None:
    body = " SMOVIL 1, R1\n [R1] SMOVIL 3, R10\n | [!R1] SMOV.M1 R12, R10\n"
    assert go(target, engine, body + RETURN, 0, 8).result == 3


def test_running_off_the_end_is_refused(target: Target, engine: Engine) -> None:
    assert "DG424" in refused(target, engine, " SMOVIL 1, R10\n")


def test_a_cycle_limit_ends_a_program_that_never_returns(target: Target, engine: Engine) -> None:
    assert "DG426" in refused(target, engine, " SBR f\n SNOP 6\n", limit=5000)


def test_unwritten_registers_are_errors_in_strict_text_and_warnings_else(target: Target, engine: Engine) -> None:
    body = " SADD.M1 R50, R10, R10\n" + RETURN
    assert "DG425" in refused(target, engine, body, 4, strict=True)
    result = go(target, engine, body, 4)
    assert result.result == 4
    assert len(result.warnings) == 1
    assert "R50" in result.warnings[0]


def test_stores_in_flight_at_the_return_still_land(target: Target, engine: Engine) -> None:
    slow = replace(
        target,
        instructions=tuple(
            replace(i, memory=replace(i.memory, store_latency=5)) if i.memory else i for i in target.instructions
        ),
    )
    body = " SMVAGA36 R11:R10, AR8\n SNOP 1\n SBR R62\n SNOP 5\n SSTW R12, *AR8\n"
    assert go(slow, engine, body, np.zeros(2, dtype=np.int32), 6).outputs["x0"].tolist() == [6, 0]


def in_time(
    target: Target, name: str, latency: int, *, equals: bool = False, exposed: bool = True, **late: int
) -> Target:
    """The target where operands of `name` are read so many cycles after issue, and it takes `latency`."""
    row = target.instruction(name)
    operands = tuple(replace(o, read_cycle=late.get(o.name, 0), latency=latency) for o in row.operands)
    memory = replace(row.memory, store_latency=latency) if row.memory is not None else None
    rows = tuple(replace(row, operands=operands, memory=memory) if i is row else i for i in target.instructions)
    pipeline = replace(target.pipeline, exposed=exposed, equals=equals)
    return replace(target, instructions=rows, pipeline=pipeline)


def test_an_operand_is_read_in_its_cycle(target: Target, engine: Engine) -> None:
    body = " SMOVIL 5, R20\n SADD.M1 R20, R10, R10\n SMOVIL 7, R20\n SMOVIL 9, R20\n"
    for cycle, seen in ((0, 5), (1, 5), (2, 7), (3, 9)):
        late = in_time(target, "SADD", 5, equals=True, a=cycle)
        assert go(late, engine, body + RETURN, 100).result == 100 + seen


def test_a_store_reads_its_data_late_and_its_address_at_issue(target: Target, engine: Engine) -> None:
    late = in_time(target, "SSTW", 4, equals=True, a=2)
    body = " SMVAGA36 R11:R10, AR8\n SNOP 1\n SSTW R12, *AR8++[1]\n SMOVIL 8, R12\n SNOP 1\n SSTW R12, *AR8\n"
    result = go(late, engine, body + RETURN, np.zeros(2, dtype=np.int32), 6)
    assert result.outputs["x0"].tolist() == [8, 8]
    body = " SMVAGA36 R11:R10, AR8\n SNOP 1\n SBR R62\n SNOP 5\n SSTW R12, *AR8\n"
    assert go(late, engine, body, np.zeros(2, dtype=np.int32), 6).outputs["x0"].tolist() == [6, 0]


def test_an_interlock_waits_for_results_and_for_late_readers(target: Target, engine: Engine) -> None:
    waiting = in_time(target, "SADD", 5, exposed=False, a=2)
    body = " SMOVIL 5, R20\n SADD.M1 R20, R10, R10\n SMOVIL 7, R20\n"
    result = go(waiting, engine, body + RETURN, 100)
    assert (result.result, result.stalls) == (105, 1)
    body = " SMOVIL 5, R20\n SADD.M1 R20, R10, R10\n SADD.M1 R20, R10, R10\n SMOV R10, R10\n"
    result = go(waiting, engine, body + RETURN, 100)
    assert (result.result, result.stalls) == (110, 8)


def test_delay_slots_are_counted_without_stalls(target: Target, engine: Engine) -> None:
    waiting = in_time(target, "SADD", 5, exposed=False)
    body = " SADD.M1 1, R10, R10\n SBR R62\n SADD.M1 1, R10, R10\n SADD.M1 1, R10, R10\n SNOP 3\n SADD.M1 1, R10, R10\n"
    result = go(waiting, engine, body, 0)
    assert (result.result, result.stalls, result.cycles) == (4, 3 + 4 + 1, 8 + 8)


def test_registers_that_are_not_settled_are_refused(target: Target, engine: Engine) -> None:
    settled = in_time(target, "SADD", 3)
    assert go(settled, engine, " SADD.M1 1, R10, R10\n SNOP 2\n SMOV.M1 R10, R10\n" + RETURN, 4).result == 5
    for early in (" SMOV.M1 R10, R20\n", " SMOVIL 1, R10\n", " SNOP 1\n SMOV.M1 R10, R20\n"):
        assert "DG434" in refused(settled, engine, " SADD.M1 1, R10, R10\n" + early + " SNOP 3\n" + RETURN, 4)


@pytest.mark.parametrize("exposed", [True, False])
def test_one_element_is_read_while_another_comes(target: Target, engine: Engine, exposed: bool) -> None:
    settled = in_time(target, "SMVCGC", 4, exposed=exposed)
    body = " SMVCGC R10, SVR0\n SMVCGC R10, SVR1\n SNOP 4\n SMVCGC R12, SVR0\n SMVCCG SVR%d, R10\n SNOP 3\n"
    other = go(settled, engine, body % 1 + RETURN, 4, 5)
    assert (other.result, other.stalls) == (4, 0)
    if exposed:
        for text in (body % 0, body.replace("SMVCCG SVR%d, R10", "VMVCCG SVR, VR0")):
            assert "DG434" in refused(settled, engine, text + RETURN, 4, 5)
    else:
        same = go(settled, engine, body % 0 + RETURN, 4, 5)
        assert (same.result, same.stalls) == (5, 3)


def test_auto_changes_to_the_native_machine_for_long_runs(target: Target) -> None:
    body = " SMOVIL 2000, R1\nagain: [R1] SBR again\n | [R1] SSUB.M1 1, R1, R1\n SADD.M2 1, R10, R10\n SNOP 5\n"
    result = go(target, "auto", body + RETURN, 0)
    assert (result.result, result.engine) == (2001, "native")
    assert go(target, "auto", RETURN).engine == "python"


def test_a_program_of_too_many_paths_runs_on_the_plain_machine(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "STATE_LIMIT", 3)
    body = " SMOVIL 500, R1\nagain: [R1] SBR again\n | [R1] SSUB.M1 1, R1, R1\n SADD.M2 1, R10, R10\n SNOP 5\n"
    result = go(target, "auto", body + RETURN, 0)
    assert (result.result, result.engine) == (501, "python")
    assert "too many paths" in result.warnings[0]


def test_a_trace_has_one_line_a_packet(target: Target) -> None:
    lines: list[str] = []
    result = go(target, "auto", RETURN, trace=lines.append)
    assert len(lines) == result.packets


def test_cycles_are_not_told_without_data_where_these_lead_to_an_address(target: Target) -> None:
    text = (
        ".global f\nf:\n SMVAGA36.M1 R11:R10, AR8\n SNOP 2\n SSTW R10, *AR8\n SNOP 3\n SLDW *AR8, R20\n SNOP 6\n"
        " SMOV.M1 R11, R21\n SMVAGA36.M1 R21:R20, AR9\n SNOP 2\n SLDW *AR9, R1\n SNOP 6\n[R1] SBR .on\n SNOP 6\n.on:"
        + RETURN
    )
    given = [("x", np.zeros(4, np.int32))]
    assert simulate(text, target, arguments=given, strict=False, file="f.s").cycles > 0
    assert cycles_only(assemble(text, target), target, function="f", arguments=given, stack=0) is None


def test_cycles_are_told_without_data_where_what_counts_waits_on_the_stack(target: Target) -> None:
    """A size that waits in memory for want of registers is what it was; so is a pointer to there."""
    text = (
        ".global f\nf:\n SMOVIL 5, R20\n SSTW R20, *-AR15[2]\n SNOP 3\n SMOVIL 0, R20\n SNOP 6\n"
        " SLDW *-AR15[2], R1\n SNOP 6\nagain: [R1] SBR again\n | [R1] SSUB.M1 1, R1, R1\n SNOP 6\n" + RETURN
    )
    cycles = simulate(text, target, strict=False, file="f.s").cycles
    assert cycles_only(assemble(text, target), target, function="f", arguments=(), stack=16) == cycles
