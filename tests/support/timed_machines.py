"""A machine's relatives in time: operands read late, ports, pipelines with and without interlocks, other branches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

from dspgen.target.isa.model import Instruction, Operand, Pipeline, SemExpr, Target

PipelineKind = Literal["equals", "settled", "interlocked"]
_AT_ISSUE = {"ld", "vld", "gather", "perm", "branch", "scatter"}
PIPELINES: tuple[PipelineKind, ...] = ("equals", "settled", "interlocked")


def timed(target: Target, seed: int, kind: PipelineKind, ports: int = 3) -> Target:
    """`target` with late reads on half of its rows, `ports` that a third of them take for a while, other delays."""
    rng = random.Random(seed)
    rows = []
    for row in target.instructions:
        latency = rng.randint(1, 7)
        if rng.random() < 0.5 and not any(_operations(s.value) & _AT_ISSUE for s in row.semantics):
            row = _late(row, rng, latency)
        else:
            row = replace(row, operands=tuple(replace(o, latency=latency) for o in row.operands))
        if ports and not row.branch and rng.random() < 0.3:
            row = replace(row, resources=((f"port{rng.randrange(ports)}", rng.randrange(3), rng.randint(1, 2)),))
        if ports and rng.random() < 0.1 and not row.branch:
            row = replace(row, busy=2)
        rows.append(row)
    pipeline = Pipeline(kind != "interlocked", kind == "equals", rng.randint(0, 9))
    return replace(target, instructions=tuple(rows), pipeline=pipeline)


def _late(row: Instruction, rng: random.Random, latency: int) -> Instruction:
    read = [o.name for o in row.operands if o.read and o.kind == "register"]
    late = {name: rng.randint(0, 3) for name in read}
    last = max(late.values(), default=0)
    operands = tuple(_timed(o, late.get(o.name, 0), last + latency) for o in row.operands)
    memory = row.memory
    if memory is not None:
        memory = replace(memory, store_latency=last + rng.randint(1, 3))
    return replace(row, operands=operands, memory=memory)


def _timed(operand: Operand, cycle: int, latency: int) -> Operand:
    return replace(operand, read_cycle=cycle, latency=latency)


def _operations(expr: SemExpr) -> set[str]:
    return {expr.op}.union(*(_operations(a) for a in expr.args))
