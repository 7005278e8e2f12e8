"""`explain`: what it says of a loop follows from the loop's own figures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from dspgen.driver.linear_asm import schedule_text
from dspgen.report.loop_table import binding, explain_loop
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.modulo import critical_recurrence, recurrence_bound
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import cyclic_graph

Run = Callable[..., tuple[int, str, str]]
LINEAR = ("biquad", "copy", "dot", "fir", "lms", "matvec", "maxsearch")


@pytest.fixture(scope="module")
def loops(root: Path) -> list[Any]:
    target = load_target("ft_m7002")
    found = []
    for name in LINEAR:
        for function in schedule_text((root / f"examples/linear/{name}.sa").read_text(), target):
            found += [(function.scheduled, loop, target) for loop in function.scheduled.loops if loop.pipelined]
    return found


def test_every_operation_of_an_iteration_is_in_the_table(loops: list[Any]) -> None:
    assert len(loops) >= len(LINEAR)
    for scheduled, report, target in loops:
        found = explain_loop(scheduled, report, target)
        copies = found.length // report.ii
        placed = [s for s in found.slots if s.stage is not None]
        assert found.length % report.ii == 0 and len(placed) == copies * len(report.steps)
        assert max(s.stage for s in placed) == report.stages - 1
        assert len({(s.cycle, s.unit) for s in found.slots}) == len(found.slots)
        control = [s for s in found.slots if s.stage is None]
        assert len(control) in (0, 2)  # the counter and the branch
        for slot in placed:
            assert slot.iteration == slot.cycle // report.ii - slot.stage


def test_the_recurrence_is_a_cycle_and_makes_the_bound(loops: list[Any]) -> None:
    for _, report, _ in loops:
        edges = report.recurrence
        assert [e.target for e in edges] == [e.source for e in (*edges[1:], *edges[:1])]
        if edges:
            rate = Fraction(sum(e.latency for e in edges), sum(e.distance for e in edges))
            assert ceil(rate) == report.rec_mii
        for edge in edges:  # and the schedule keeps to it
            ready = report.steps[edge.source].cycle + edge.latency
            assert report.steps[edge.target].cycle + edge.distance * report.ii >= ready


def test_what_binds_accounts_for_the_interval(loops: list[Any]) -> None:
    for _, report, target in loops:
        for what in binding(report, target):
            assert what["kind"] in ("units", "packets", "recurrence", "search") and what["cycles"] == report.ii
        if report.ii == report.least:
            assert {"search"}.isdisjoint(w["kind"] for w in binding(report, target))
        if report.binding_units:
            work = sum(s.instruction.busy for s in report.steps if s.unit in report.binding_units)
            assert ceil(Fraction(work, len(report.binding_units))) >= report.res_mii


def test_the_critical_recurrence_of_random_graphs_is_in_the_graph() -> None:
    facts = Facts(load_target("ft_m7002"))
    for seed in range(12):
        graph = cyclic_graph(facts, seed).graph
        edges = critical_recurrence(graph)
        assert all((b, latency, distance) in graph.successors[a] for a, b, latency, distance in edges)
        rate = Fraction(sum(e[2] for e in edges), sum(e[3] for e in edges)) if edges else Fraction(0)
        assert rate == recurrence_bound(graph)


def test_json_has_what_the_table_shows(dspgen: Run, root: Path) -> None:
    arguments = ["explain", str(root / "examples/linear/biquad.sa"), "--isa", "ft_m7002", "--line", "22"]
    status, out, err = dspgen(*arguments, "--json")
    found = json.loads(out)
    assert (status, err, found["kernel"], found["line"]) == (0, "", "biquad", 22)
    loop = next(x for x in found["loops"] if x["pipelined"])
    assert loop["binding"] == [{"kind": "recurrence", "cycles": 13, "units": []}]
    assert sum(e["latency"] for e in loop["recurrence"]) == 13
    critical = [s for s in loop["slots"] if s["critical"]]
    assert len(critical) == len(loop["recurrence"])
    _, table, _ = dspgen(*arguments)
    for slot in critical:
        assert re.search(rf"{slot['mnemonic']} {slot['line']} i\S* \^", table)


def test_options_of_c_are_refused_for_linear_assembly(dspgen: Run, root: Path) -> None:
    arguments = ["explain", str(root / "examples/linear/dot.sa"), "--isa", "ft_m7002", "--line", "1"]
    status, _, err = dspgen(*arguments, "-D", "N=4")
    assert status == 2 and "-D goes with a C file" in err
    status, _, err = dspgen(*arguments, "--function", "nothing")
    assert status == 2 and "the file has dot" in err


def test_the_example_of_the_page(dspgen: Run, root: Path) -> None:
    """What binds the loop is as the page says, and its table's columns are; schedules of one length may differ."""
    page = (root / "docs/cli.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\n( *line 22: .*?)```", page, re.S)
    file = str(root / "examples/linear/biquad.sa")
    _, out, _ = dspgen("explain", file, "--isa", "ft_m7002", "--line", "22")
    for line in block.splitlines():
        if line.startswith(("┃", "iterations", "bound", "critical")) or "line 22" in line:
            assert line.strip() in out
