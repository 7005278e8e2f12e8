"""Loops with conditional stores: guards that bounds make needless, masked stores in pipelines, nests of one value."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from dspgen.driver.pipeline import RunResult, run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.sched.machine.reservation_table import ReservationTable
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.search.plan_search import Chooser
from dspgen.target.load import load_target
from dspgen.tiling.loops.loop_arrangements import spaced
from dspgen.tiling.split.loop_fission import split
from dspgen.vecdsl.ir.program import Load, Program
from dspgen.vecdsl.ir.terms import leaves, own_terms, statements
from plant_core.normalize.pipeline import canonical

FT = load_target("ft_m7002")
HEAD = "void k(float a[128], const float b[128], float c[128], const float d[128])\n{\n"
ONE = HEAD + "for (int i = 0; i < 128; i++) if (b[i] > 0.f) a[i] += b[i] * c[i];\n}\n"
BOTH = HEAD + "for (int i = 0; i < 128; i++) if (b[i] < 0.f && d[i] > b[i]) a[i] += b[i] * d[i];\n}\n"
TWO = (
    HEAD + "for (int i = 0; i < 128; i++) if (a[i] > b[i]) { float s = a[i] - b[i] * d[i]; c[i] += s; a[i] = s; }\n}\n"
)
SUM = (
    "void k(const float a[64], const int ip[64], float r[1])\n{\nfloat s = 0.f;\n"
    "for (int i = 0; i < 64; i++) s += a[ip[i] & 63];\nr[0] = s;\n}\n"
)


def run(tmp_path: Path, text: str) -> tuple[RunResult, Program]:
    path = tmp_path / "k.c"
    path.write_text(text)
    stages: dict[str, object] = {}
    result = run_file(str(path), FT, Options(tile="one"), on_stage=stages.__setitem__)
    program = stages["promoted"]
    assert isinstance(program, Program)
    return result, program


@pytest.mark.parametrize("text", [ONE, BOTH, TWO])
def test_loads_inside_their_arrays_are_not_masked_and_conditional_loops_are_pipelined(
    tmp_path: Path, text: str
) -> None:
    result, program = run(tmp_path, text)
    assert result.verified
    loads = [x for s in statements(program.body) for t in own_terms(s) for x in leaves(t) if isinstance(x, Load)]
    assert loads and all(load.mask is None for load in loads)
    assert result.cycles < 128  # lane by lane, or one vector after the other, it is several times as many


def test_a_nest_that_makes_one_value_is_judged_with_it(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(SUM)
    func = spaced(split(canonical(read_c(str(path)), reassoc=True)))
    choices = Chooser(func, FT, Options()).choices("full")
    summing = next(c for c in choices if len(c.trials) > 1)
    assert all(t.cycles is None or t.cycles > 20 for t in summing.trials)


def test_a_reservation_table_has_room_exactly_where_units_can_be_shared_out() -> None:
    facts = Facts(FT)
    generator = random.Random(3)
    related = tuple(range(4))
    kinds = [Reservation(tuple(sorted(generator.sample(related, n))), 1, (), related) for n in (1, 2, 2, 3, 4)]
    for _ in range(60):
        table = ReservationTable(facts, 2)
        placed: dict[int, tuple[int, Reservation]] = {}
        for op in range(24):
            if placed and generator.random() < 0.3:
                gone = generator.choice(sorted(placed))
                table.remove(gone)
                del placed[gone]
            row, kind = generator.randrange(2), generator.choice(kinds)
            here = [k.alternatives for at, k in placed.values() if at == row] + [kind.alternatives]
            expected = len(here) <= facts.issue and any(
                len(set(units)) == len(units) for units in itertools.product(*here)
            )
            assert table.place(op, row, kind) == expected
            if expected:
                placed[op] = (row, kind)
