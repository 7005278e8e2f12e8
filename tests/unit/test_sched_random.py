"""Random linear assembly, scheduled and simulated, does what the same assembly does when run in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspgen.emit.text import print_lines
from dspgen.sched.scheduler import schedule
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.sched_programs import RandomProgram, assert_same, with_latencies
from tests.support.timed_machines import PIPELINES, PipelineKind, timed

TARGET = load_target("ft_m7002")


def check(target: Target, seed: int, *, pipeline: bool = True, dynamic: bool = False, scalar_streams: int = 1) -> None:
    function = RandomProgram(target, seed, dynamic=dynamic, scalar_streams=scalar_streams).function()
    assert_same(function, target, seed, seed % 7, pipeline=pipeline)


@pytest.mark.parametrize("seed", range(12))
def test_pipelined(seed: int) -> None:
    check(TARGET, seed, scalar_streams=seed % 4)


@pytest.mark.parametrize("seed", range(100, 106))
def test_one_iteration_at_a_time(seed: int) -> None:
    check(TARGET, seed, pipeline=False)


@pytest.mark.parametrize("seed", range(200, 210))
def test_trips_in_registers(seed: int) -> None:
    check(TARGET, seed, dynamic=True)


@pytest.mark.parametrize("seed", range(300, 312))
def test_other_latencies_and_branch_delays(seed: int) -> None:
    check(with_latencies(TARGET, seed), seed, dynamic=seed % 2 == 0, scalar_streams=2)


@pytest.mark.parametrize("seed", range(400, 406))
def test_registers_that_change_at_issue(seed: int) -> None:
    """Without equals semantics a register may change any time before its result is due."""
    check(replace(TARGET, pipeline=replace(TARGET.pipeline, equals=False)), seed)


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("seed", (1, 3, 4, 5))
def test_late_reads_ports_and_pipelines_of_all_kinds(seed: int, kind: PipelineKind) -> None:
    """Also on the schedule checker: no result may be used early, and what is scheduled runs without a stall."""
    target = timed(TARGET, seed, kind, ports=seed % 4)
    check(target, 5000 + seed, pipeline=seed % 3 != 0, dynamic=seed % 2 == 0, scalar_streams=seed % 4)


def test_same_bytes_every_time() -> None:
    function = RandomProgram(TARGET, 7, scalar_streams=2).function()
    first, second = (print_lines(schedule(function, TARGET).lines, TARGET) for _ in range(2))
    assert first == second
