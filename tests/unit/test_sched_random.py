"""Random linear assembly, scheduled and simulated, does what the same assembly does when run in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspgen.check.check import check as against_packets
from dspgen.emit.linear import emit_linear
from dspgen.emit.text import print_lines
from dspgen.sched.ir import Scheduled
from dspgen.sched.schedule import schedule
from dspgen.sim.run import SimResult, simulate
from dspgen.target.load import load_target
from dspgen.target.model import Target
from tests.support.sched_programs import RandomProgram, evaluate, with_latencies
from tests.support.timed_machines import PIPELINES, PipelineKind, timed

TARGET = load_target("ft_m7002")


def run(scheduled: Scheduled, target: Target, memory: dict[str, np.ndarray], count: int) -> SimResult:
    text = ".global program\nprogram:\n" + print_lines(scheduled.lines, target)
    arguments = [*memory.items(), ("n", count)]
    return simulate(text, target, function="program", arguments=arguments, engine="python", limit=500_000)


def check(target: Target, seed: int, *, pipeline: bool = True, dynamic: bool = False, scalar_streams: int = 1) -> None:
    function = RandomProgram(target, seed, dynamic=dynamic, scalar_streams=scalar_streams).function()
    random = np.random.default_rng(seed)
    memory = {name: random.integers(-100, 100, RandomProgram.WORDS).astype(np.int32) for name in "abc"}
    expected = {name: array.copy() for name, array in memory.items()}
    evaluate(function, target, expected, {"n": seed % 7})
    scheduled = schedule(function, target, pipeline=pipeline)
    result = run(scheduled, target, memory, seed % 7)
    for name, array in expected.items():
        np.testing.assert_array_equal(result.outputs[name], array, err_msg=name)
    assert result.stalls == 0
    if scheduled.cycles is not None:
        assert scheduled.cycles == result.cycles


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
    pipeline = seed % 3 != 0
    check(target, 5000 + seed, pipeline=pipeline, dynamic=seed % 2 == 0, scalar_streams=seed % 4)
    function = RandomProgram(target, 5000 + seed, dynamic=seed % 2 == 0, scalar_streams=seed % 4).function()
    scheduled = schedule(function, target, pipeline=pipeline)
    random = np.random.default_rng(seed)
    memory = [(name, random.integers(-100, 100, RandomProgram.WORDS).astype(np.int32)) for name in "abc"]
    text = ".global program\nprogram:\n" + print_lines(scheduled.lines, target)
    found = against_packets(emit_linear(function, target), text, target, [*memory, ("n", seed % 7)])
    assert found.problems == ()


def test_same_bytes_every_time() -> None:
    function = RandomProgram(TARGET, 7, scalar_streams=2).function()
    first, second = (print_lines(schedule(function, TARGET).lines, TARGET) for _ in range(2))
    assert first == second
