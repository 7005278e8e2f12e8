"""Packets that take only so many instructions on some groups of units: the table, all schedulers, the simulator."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.errors import SourceError
from dspgen.options import Options
from dspgen.sched.loops.loop_body import HEURISTICS
from dspgen.sched.machine.group_limits import Limits
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.reservation_table import ReservationTable
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.modulo.exact import exact_modulo_schedule
from dspgen.sched.straight.block_packing import Searches, fit_block
from dspgen.sched.straight.list_scheduling import Fitted
from dspgen.sim.run import simulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import cyclic_graph
from tests.support.limited import KINDS, VECTOR, limited
from tests.support.straight_blocks import Blocks
from tests.unit.test_sched_random import check as check_program

PLAIN = load_target("ft_m7002")
TARGETS = [limited(PLAIN, *limits) for limits in KINDS]
EXAMPLES = Path(__file__).parents[2] / "examples"
needs_solver = pytest.mark.needs_tool("ortools")


def kept(starts: list[int], limits: Limits) -> bool:
    """Whether no unit starts twice in a packet, and no limit is exceeded."""
    return len(set(starts)) == len(starts) and all(
        sum(units >> u & 1 for u in starts) <= most for units, most in limits.groups
    )


def check_packets(fitted: Fitted, facts: Facts) -> None:
    for packet in fitted.cycles:
        assert kept([unit for _, unit in packet], facts.limits)


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_takes_what_some_choice_of_units_allows(target: Target) -> None:
    facts = Facts(target)
    generator = random.Random(11)
    kinds = list({facts.reservation(i) for i in target.instructions if i.units and i.busy == 1 and not i.resources})
    for _ in range(150):
        table = ReservationTable(facts, 1)
        inside: list[Reservation] = []
        for op in range(9):
            kind = generator.choice(kinds)
            allowed = any(
                kept(list(units), facts.limits) for units in product(*(r.alternatives for r in (*inside, kind)))
            )
            assert table.place(op, 0, kind) == allowed
            if allowed:
                inside.append(kind)
            elif op < 6:
                worth = [generator.randrange(9) for _ in range(9)]
                for victim in table.blockers(0, kind, worth):
                    table.remove(victim)
                assert table.place(op, 0, kind)
                break
            assert kept(list(table.unit_of.values()), facts.limits)


@needs_solver
@pytest.mark.parametrize("target", TARGETS)
def test_straight_code_keeps_the_limits(target: Target) -> None:
    blocks = Blocks(target)
    for seed in range(10):
        ops = blocks.block(seed)
        found = [fit_block(ops, blocks.facts, method=m, searches=Searches(200_000)) for m in ("list", "dp", "exact")]
        for fitted in found:
            check_packets(fitted, blocks.facts)
        free = fit_block(Blocks(PLAIN).block(seed), Facts(PLAIN), method="exact")
        assert found[0].length >= found[1].length >= found[2].length >= max(free.bound, found[2].bound)


@needs_solver
@pytest.mark.parametrize("target", TARGETS)
def test_modulo_schedules_keep_the_limits(target: Target) -> None:
    facts = Facts(target)
    for seed in range(5):
        body = cyclic_graph(facts, seed)
        for interval in (body.least, body.least + 1):
            exact = exact_modulo_schedule(body.graph, body.reservations, facts, interval, effort=1.0)
            found = [scheduler(body.graph, body.reservations, facts, interval) for scheduler in HEURISTICS]
            for schedule in (exact, *found):
                if isinstance(schedule, ModuloSchedule):
                    assert exact != "infeasible"
                    for row in range(interval):
                        here = [op for op, at in enumerate(schedule.cycles) if at % interval == row]
                        assert kept([schedule.table.unit_of[op] for op in here], facts.limits)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_run_within_the_limits(seed: int) -> None:
    check_program(TARGETS[seed % len(TARGETS)], seed, scalar_streams=seed % 4, dynamic=seed % 2 == 1)


def test_a_loop_is_as_slow_as_its_limit_makes_it() -> None:
    options = Options(defines=(("N", "4096"),), data="onchip")
    plain = run_file(str(EXAMPLES / "saxpy.c"), PLAIN, options)
    narrow = run_file(str(EXAMPLES / "saxpy.c"), limited(PLAIN, (VECTOR[0], 2)), options)
    assert plain.verified and narrow.verified
    assert narrow.cycles > plain.cycles


def test_the_simulator_refuses_a_packet_beyond_a_limit() -> None:
    packet = "f:\n VMOV.M1 VR1,VR2\n| VMOV.M2 VR3,VR4\n| VMOV VR5,VR6\n SBR R62\n SNOP 6\n"
    wide = limited(PLAIN, ("VMAC1 VMAC2 VMAC3 VIEU", 3))
    simulate(packet, wide, function="f", arguments=[], strict=False)
    narrow = limited(PLAIN, ("VMAC1 VMAC2 VMAC3 VIEU", 2))
    with pytest.raises(SourceError, match="at most 2 on VIEU, VMAC1, VMAC2, VMAC3"):
        simulate(packet, narrow, function="f", arguments=[], strict=False)


def test_a_packet_finds_the_units_that_keep_a_limit() -> None:
    """Sums whose units are not told go where the limit has room."""
    text = "f:\n SADD R1,R2,R3\n| SADD R4,R5,R6\n SBR R62\n SNOP 6\n"
    simulate(text, limited(PLAIN, ("SMAC1 SMAC2", 1)), function="f", arguments=[], strict=False)
    narrow = limited(PLAIN, ("SMAC1 SMAC2 SIEU", 1), ("SMAC1 SMAC2", 1))
    with pytest.raises(SourceError, match="at most 1 on SIEU, SMAC1, SMAC2"):
        simulate(text, narrow, function="f", arguments=[], strict=False)


def test_an_isa_file_says_the_limits(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "isa" / "ft_m7002.toml").read_text()
    file = tmp_path / "narrow.toml"
    file.write_text(
        text.replace("[pipeline]", '[packets.limits.vector]\nunits = ["VMAC", "VIEU"]\nmost = 2\n\n[pipeline]')
    )
    found = load_target(str(file)).packets.limits
    assert [(x.name, sorted(x.units), x.most) for x in found] == [("vector", ["VIEU", "VMAC1", "VMAC2", "VMAC3"], 2)]
    assert replace(load_target(str(file)).packets, limits=()) == PLAIN.packets
