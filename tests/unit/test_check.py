"""The schedule checker: right packets pass it, and every kind of mistake is told at its line."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import numpy as np
import pytest

from dspgen.backend.stages import Compiled
from dspgen.check.equivalence import Checked, against, check
from dspgen.driver.pipeline import compile_file
from dspgen.emit.linear import emit_linear
from dspgen.emit.text import print_lines
from dspgen.errors import SourceError
from dspgen.options import Options
from dspgen.oracle.inputs import random_inputs
from dspgen.sched.scheduler import schedule
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_names, load_target
from tests.support.checking import arguments_of, reference_of, stack_of
from tests.support.examples import defines
from tests.support.mutations import KINDS, Mutator, breaks, ending, other_data
from tests.support.sched_programs import RandomProgram, with_latencies

ROOT = Path(__file__).parents[2]
TARGET = load_target("ft_m7002")

# Two products and their difference, on ft_m7002: in order, and as packets with reads in flight.
LINEAR = """
.global f
.input x1:x0, n
.gen_var a, b, c, s
.add_var p
    SMVAGA36 x1:x0, p
    SMOVIL 0, s
.L: .loop
    SLDW *p, a
    SLDW *+p[1], b
    SFMULS32 a, b, c
    SFSUBS32 s, c, s
    SADDA 4, p, p
    SSUB 1, n, n
    [n] SBR .L
    .endloop
    SSTW s, *p
.size f, .-f
"""
PACKETS = """
.global f
f:
        SMVAGA36.M1 R11:R10, AR10
|       SMOV.M2 R12, R1
        SMOVIL 0, R20
.L:
        SLDW *AR10++[1], R21
        SLDW *AR10, R22
        SNOP 5
        SFMULS32.M1 R21, R22, R23
|       SSUB 1, R1, R1
        SNOP 2
        [R1] SBR .L
        SFSUBS32.M2 R20, R23, R20
        SNOP 5
        SSTW R20, *AR10
|       SBR R62
        SNOP 6
"""


def judged(old: str = "", new: str = "", linear: str = LINEAR) -> Checked:
    """PACKETS with one text replaced, on an array and three turns."""
    assert old in PACKETS
    x = np.arange(1, 9, dtype=np.float32)
    return check(linear, PACKETS.replace(old, new, 1), TARGET, [("x", x), ("n", 3)], files=("f.sa", "f.s"))


def test_right_packets_pass() -> None:
    found = judged()
    assert found.problems == ()
    assert found.not_run == ()
    assert found.steps == 2 + 3 * 7 + 1


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "told"),
    [
        ("SNOP 5\n        SFMULS32", "SNOP 4\n        SFMULS32", "DG458", 11, "reads R22"),
        ("SNOP 2", "SNOP 1", "DG458", 15, "reads R23, which was never written"),
        ("R21, R22, R23", "R22, R22, R23", "DG450", 11, "what line 9 made, in place of the result of line 9"),
        ("SFSUBS32.M2 R20, R23, R20", "SFSUBS32.M2 R23, R20, R20", "DG450", 15, "is not what"),
        ("SFSUBS32.M2 R20, R23, R20", "SFADDS32.M2 R20, R23, R20", "DG450", 15, "is not what"),
        ("SLDW *AR10, R22", "SLDW *+AR10[1], R22", "DG450", 9, "in place of the result of line 10"),
        ("SLDW *AR10, R22", "SLDW *AR10, R24", "DG458", 11, "R22"),
        ("|       SMOV.M2", "|       SMOV.M1", "DG406", 5, "no unit is left"),
        ("SNOP 5\n        SSTW", "SNOP 3\n        SSTW", "DG452", 18, "delay slots"),
        ("[R1] SBR .L", "SBR .L", "DG456", 10, "far longer"),
        ("SMOVIL 0, R20", "SMOVIL 0, R30", "DG458", 15, "R20"),
        ("SMOVIL 0, R20", "SMOVIL 0, R20\n|       SMOV.M1 R12, R20", "DG451", 7, "land on R20"),
        ("SMOVIL 0, R20", "SMOVIL 0, R20\n        SMOVIL 1, R30", "DG455", 7, "R30 is not at the return"),
        ("        SNOP 6", "        SNOP 5\n        SLDW *AR10, R40", "DG455", 20, "after the return"),
        ("SLDW *AR10, R22", "SLDW *-AR10[15], R22", "DG450", 9, "is not what"),
        ("SSTW R20, *AR10", "SSTW R20, *AR11", "DG458", 17, "AR11"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(old: str, new: str, code: str, line: int, told: str) -> None:
    problem = judged(old, new).problems[0]
    assert (problem.code, problem.loc.line if problem.loc else None) == (code, line)
    assert told in problem.message


def test_a_read_in_flight_is_right_where_the_linear_text_has_the_old_value() -> None:
    """R21 is loaded anew while the product still takes the old value: one cycle later it would be the next turn's."""
    early = """
        SLDW *AR10++[1], R21
        SLDW *AR10, R22
        SNOP 5
"""
    late = """
        SLDW *AR10++[1], R21
        SLDW *AR10, R22
        SNOP 1
        SLDW *+AR10[3], R21
        SNOP 3
"""
    assert judged(early, late).problems == ()
    assert judged(early, late.replace("SNOP 1", "SNOP 0 + 0").replace("        SNOP 0 + 0\n", "")).problems != ()


def test_units_held_for_several_cycles_are_seen_on_paths_that_do_not_run() -> None:
    held = "SFMULS32.M1 R21, R22, R23\n|  VFCREAL32.M1 VR1:VR0, VR3:VR2, VR4\n  VADD.M1 VR0, VR1, VR5"
    text = PACKETS.replace("SFMULS32.M1 R21, R22, R23", held)
    skipped = text.replace(
        "        SMOVIL 0, R20\n", "        SMOVIL 0, R20\n|       [R2] SBR .never\n        SNOP 6\n"
    )
    found = check(
        LINEAR, skipped + ".never:\n" + held + "\n        SNOP 1\n", TARGET, [("x", np.ones(9, np.float32)), ("n", 2)]
    )
    assert found.problems[0].code == "DG453"


def test_the_result_register_is_compared() -> None:
    linear = ".global f\n.input a, b\n.output c\n.gen_var c\n    SADD a, b, c\n"
    packets = ".global f\nf:\n    SBR R62\n    SNOP 5\n    SADD R10, R12, R10\n"
    arguments = [("a", 4), ("b", 5)]
    assert check(linear, packets, TARGET, arguments).problems == ()
    wrong = packets.replace("SADD R10, R12", "SADD R10, R10")
    assert check(linear, wrong, TARGET, arguments).problems[0].code == "DG450"


def test_copies_and_spills_change_nothing() -> None:
    linear = ".global f\n.input x1:x0\n.gen_var v, w, s, t\n.add_var p, q\n"
    linear += " SMVAGA36 x1:x0, p\n SMVAGA36 x1:x0, q\n VLDW *p, v\n VFADDS32 v, v, w\n VSTW w, *+p[16]\n"
    linear += " SLDDW *q, t:s\n SFADDD t:s, t:s, t:s\n SSTDW t:s, *+q[1]\n"
    packets = """
 .global f
f: SMVAGA36.M1 R11:R10, AR10
|  SMVAGA36.M2 R11:R10, AR0
   SNOP 1
   VLDW *AR0, VR1
|  SLDDW *AR10, R21:R20
   SNOP 7
   VFADDS32 VR1, VR1, VR2
   SSTDW R21:R20, *-AR15[3]
   SNOP 1
   VMOV VR2, VR4
   VSTW VR4, *-AR7[2]
   VLDW *-AR7[2], VR6
   SNOP 1
   SLDDW *-AR15[3], R23:R22
   SNOP 5
   VSTW VR6, *+AR0[16]
|  SFADDD.M1 R23:R22, R23:R22, R25:R24
   SNOP 4
   SMOV.M1 R24, R26
|  SMOV.M2 R25, R27
   SSTDW R27:R26, *+AR10[1]
   SBR R62
   SNOP 6
"""
    arguments = [("x", np.ones(64, np.float32))]
    assert check(linear, packets, TARGET, arguments, stack=4096).problems == ()
    assert check(linear, packets.replace("SMOV.M2 R25", "SMOV.M2 R24"), TARGET, arguments, stack=4096).problems


def test_one_condition_in_all_lanes_decides_as_a_predicate_does() -> None:
    linear = ".global f\n.input x1:x0, c\n.gen_var v\n.add_var p\n SMVAGA36 x1:x0, p\n VLDW *p, v\n"
    linear += " [!c]SBR .over\n VADD v, v, v\n.over:\n VSTW v, *p\n"
    packets = """
 .global f
f: SMVAGA36.M1 R11:R10, AR0
|  SVBCAST.M2 R12, VR1
   SNOP 1
   VLDW *AR0, VR2
   SNOP 7
   [VR1] VADD VR2, VR2, VR2
   VSTW VR2, *AR0
|  SBR R62
   SNOP 6
"""
    for c in (0, 5):
        arguments = [("x", np.ones(16, np.int32)), ("c", c)]
        assert check(linear, packets, TARGET, arguments).problems == ()
        assert check(linear, packets.replace("[VR1]", "[!VR1]"), TARGET, arguments).problems


def test_a_register_of_the_caller_may_be_put_by_in_parts() -> None:
    linear = ".global f\n.input x1:x0\n.gen_var s\n.add_var p\n SMVAGA36 x1:x0, p\n SLDW *p, s\n SSTW s, *+p[1]\n"
    packets = """
 .global f
f: SMVAAGL.M1 AR8, R21:R20
|  SMVAAGH.M2 AR8, R21:R20
   SMVAGA36.M1 R11:R10, AR8
   SSTDW R21:R20, *-AR15[1]
   SLDW *AR8, R22
   SLDDW *-AR15[1], R25:R24
   SNOP 4
   SSTW R22, *+AR8[1]
|  SBR R62
   SMVAGA36.M1 R25:R24, AR8
   SNOP 5
"""
    arguments = [("x", np.ones(4, np.float32))]
    assert check(linear, packets, TARGET, arguments, stack=4096).problems == ()
    wrong = packets.replace("   SMVAGA36.M1 R25:R24, AR8", "   SMVAGA36.M1 R25:R24, AR9")
    assert {p.message[:3] for p in check(linear, wrong, TARGET, arguments, stack=4096).problems} == {"AR8", "AR9"}


def test_linear_text_that_cannot_be_read() -> None:
    with pytest.raises(SourceError, match="no form of SADD"):
        check(".global f\n.input a\n SADD a, a\n", ".global f\nf: SBR R62\n SNOP 6\n", TARGET, [("a", 1)])


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    """Loops of streams, carried values, conditions and trips in registers, on other latencies too."""
    target = TARGET if seed % 2 else with_latencies(TARGET, seed)
    function = RandomProgram(target, 500 + seed, dynamic=seed % 3 == 0, scalar_streams=2).function()
    packets = ".global program\nprogram:\n" + print_lines(schedule(function, target).lines, target)
    rng = np.random.default_rng(seed)
    arguments: list[tuple[str, object]] = [
        (name, rng.integers(-100, 100, RandomProgram.WORDS).astype(np.int32)) for name in "abc"
    ]
    found = check(emit_linear(function, target), packets, target, [*arguments, ("n", seed)], stack=8192)
    assert found.problems == (), "\n".join(p.render() for p in found.problems)


def test_the_checker_knows_nothing_of_the_schedulers() -> None:
    """The modules that it brings in, through all that these import, hold no scheduler: texts, machine and simulator."""
    todo, seen = ["dspgen.check.equivalence"], set[str]()
    while todo:
        name = todo.pop()
        path = ROOT / Path(*name.split(".")).with_suffix(".py")
        if name in seen or not name.startswith("dspgen.") or not path.is_file():
            continue
        seen.add(name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                todo += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                todo += [alias.name for alias in node.names]
    rooms = {".".join(name.split(".")[:2]) for name in seen}
    assert rooms & {"dspgen.asmir", "dspgen.rewrite", "dspgen.tiling", "dspgen.driver.pipeline"} == set()
    assert {name for name in seen if name.startswith("dspgen.sched")} == {"dspgen.sched.ir.packets"}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A function that fetches an array, doubles it, and puts it back."""
    path = tmp_path_factory.mktemp("check") / "twice.c"
    path.write_text("void twice(const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[i] = 2 * x[i]; }")
    return compile_file(str(path), TARGET, Options(data="ddr"))


GO = r"(SSTW\S* R\d+, \S+\n)((?:\s+SNOP.*\n)+\S*wait2:)"  # of the transfer that puts back, and what waits for it
ASKED = r"(?<=wait{}:\n)(;.*\n)*\s+SLDW.*, (R\d+)\n"


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        ("^$", "", "", ""),
        (ASKED.format(1), r"        SMOVIL 0, \2\n", "DG460", "which a transfer is moving"),
        (ASKED.format(2), r"        SMOVIL 0, \2\n", "DG460", "asked whether all transfers"),
        (GO, r"SNOP 1\n\2", "DG450", "is not what the linear text stores"),
        (GO, r"\1        \1\2", "DG460", "starts a transfer on channel"),
        ("wait2:\n", "wait2:\n        VSTW VR5, *AR0\n        SNOP 7\n", "DG460", "which a transfer is moving"),
        (r"SMOVIL 256, (R\d+)", r"SMOVIL 0, \1", "DG460", "starts a transfer of nothing"),
    ],
)
def test_transfers_are_waited_for(copied: Compiled, old: str, new: str, code: str, told: str) -> None:
    packets, count = re.subn(old, new, copied.asm, count=1)
    assert count == (old != "^$")
    values = {"x": np.arange(64, dtype=np.float32), "y": np.zeros(64, np.float32)}
    found = against(reference_of(copied, TARGET, values), assemble(packets, TARGET), TARGET)
    if code:
        assert found.problems[0].code == code
        assert told in found.problems[0].message
    else:
        assert found.problems == ()


MUTATED = ("saxpy", "dot", "stencil3", "matvec", "fir", "biquad", "autocor", "conv2d_valid", "matmul", "fir16")


def compiled(name: str, target: Target, *, tile: str) -> Compiled:
    options = Options(defines=defines(name), tile="one" if tile == "one" else "search")
    return compile_file(str(ROOT / "examples" / f"{name}.c"), target, options)


def missed(name: str, target: Target, count: int, seed: int, *, tile: str) -> tuple[int, list[str]]:
    """How many of `count` mutants break the text, and which of those the checker lets pass."""
    code = compiled(name, target, tile=tile)
    values = random_inputs(code.source, 3)
    wanted, stack = reference_of(code, target, values), stack_of(code)
    right = against(wanted, assemble(code.asm, target), target)
    assert right.problems == ()
    limit = 4 * right.cycles + 2000
    arguments = arguments_of(code, values)
    runs = []
    for data in (arguments, other_data(arguments, 1), other_data(arguments, 2)):
        end = ending(code.asm, target, data, stack, limit)
        assert end is not None
        runs.append((data, end))
    rng, mutator = random.Random(seed), Mutator(code.asm, target)
    made = broken = 0
    passed = []
    while made < count:
        mutant = mutator.mutant(rng, KINDS[made % len(KINDS)])
        if mutant is None or mutant.text == code.asm:
            continue
        made += 1
        if breaks(mutant, target, runs, stack, limit):
            broken += 1
            if not caught(mutant.text, wanted, target):
                passed.append(f"{name} on {target.name}: {mutant.kind}: {mutant.what}")
    return broken, passed


def caught(text: str, wanted, target: Target) -> bool:  # type: ignore[no-untyped-def]
    try:
        return bool(against(wanted, assemble(text, target), target).problems)
    except SourceError:
        return True


@pytest.mark.parametrize(("isa", "name"), [("ft_m7002", "saxpy"), ("ft_m7002", "dot"), ("ft_mt3000", "saxpy")])
def test_mutants_are_caught(isa: str, name: str) -> None:
    broken, passed = missed(name, load_target(isa), 2 * len(KINDS) * 4, 7, tile="one")
    assert passed == []
    assert broken > len(KINDS) * 4


@pytest.mark.slow
@pytest.mark.parametrize("isa", isa_names())
def test_a_thousand_mutants_are_caught(isa: str) -> None:
    """At least 1,000 that break a latency, a unit or a register, of ten examples as they are emitted by default."""
    target, total = load_target(isa), 0
    for k, name in enumerate(MUTATED):
        broken, passed = missed(name, target, 130, k, tile="search")
        assert passed == []
        total += broken
    assert total >= 1000
