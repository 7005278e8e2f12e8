"""A small program for each row of each machine where nothing waits: its result is there for whoever reads it in the
first cycle that its latency allows; and it issues on all of its units in every cycle that they are free. Each program
leaves the registers and the memory as one does whose instructions wait for each other. `test_isa_rows` has what a row
by itself computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from dspgen.sim.ir.registers import RegisterFile
from dspgen.target.isa.model import Instruction, Operand, Target
from dspgen.target.load import isa_names, load_target
from tests.unit.test_isa_rows import SETTLED, Bench, forms

EXPOSED = [isa for isa in isa_names() if load_target(isa).pipeline.exposed]
ROWS = [(isa, row.id) for isa in EXPOSED for row in load_target(isa).instructions if not row.branch]
MEMORY = 4096  # bytes of the array that the rows access
GROUPS = 3  # packets at full rate, and links of a chain
State = tuple[list[np.ndarray], bytes | None]


@cache
def machine(isa: str) -> Target:
    return load_target(isa)


@cache
def file_of(isa: str) -> RegisterFile:
    return RegisterFile(machine(isa))


def bench_of(isa: str, row: str) -> Bench:
    target = machine(isa)
    instruction = next(i for i in target.instructions if i.id == row)
    return Bench(instruction, next(forms(instruction, target)), target, file_of(isa))


def state(bench: Bench, issues: Mapping[int, Sequence[str]]) -> State:
    """The registers and the memory when all has landed."""
    end = max(issues) + 1 + SETTLED + max(i.latency for i in bench.target.instructions)
    loaded, _, registers = bench.started(bench.program(issues, end), 5)
    for cell in bench.cells(bench.target.abi.return_operand):  # it tells how long the program is
        registers[cell][:] = 0
    return registers, loaded.memories.read(loaded.places[0][1], MEMORY)


def same(one: State, other: State) -> bool:
    return one[1] == other[1] and all(np.array_equal(a, b) for a, b in zip(one[0], other[0], strict=True))


def readers(operand: Operand, row: Instruction, target: Target) -> Iterator[tuple[Instruction, Operand]]:
    """Rows that read registers as the operand's, the row itself first, those that access no memory before others."""
    rows = sorted(target.instructions, key=lambda i: (i.id != row.id, i.memory is not None))
    for reader in rows:
        for source in reader.operands if not reader.branch else ():
            if source.kind == "register" and source.read and {*source.classes} & {*operand.classes}:
                yield reader, source


def registers(bench: Bench, name: str) -> list[str]:
    """Registers of a class that the row's texts don't name and that programs here don't need; the only one, if so."""
    names = bench.target.register_class(name).names
    taken = {c for text in (*bench.texts.values(), bench.base, *kept(bench.target)) for c in bench.cells(text)}
    return [n for n in reversed(names) if not taken & {*bench.cells(n)}] or [names[0]]


def kept(target: Target) -> tuple[str, ...]:
    return (target.abi.return_operand, *target.abi.return_address.split(":"), *target.abi.reserved)


@pytest.mark.parametrize(("isa", "row"), ROWS)
def test_results_are_read_as_soon_as_they_are_there(isa: str, row: str) -> None:
    bench = bench_of(isa, row)
    for result in (o for o in bench.row.operands if o.write and o.kind == "register"):
        found = next(readers(result, bench.row, bench.target), None)
        if found is None:
            continue
        reader, source = found
        register = registers(bench, next(c for c in result.classes if c in source.classes))[0]
        given = bench.line(**{result.name: register})
        reading = bench_of(isa, reader.id).line(**{source.name: register})
        wait = max(result.latency - source.read_cycle, 1)
        chained = {0: [given], **{wait * k: [reading] for k in range(1, GROUPS if reader.id == row else 2)}}
        apart = {cycle * (SETTLED + 1): lines for cycle, lines in chained.items()}
        assert same(state(bench, chained), state(bench, apart)), (reader.id, register)


def at_once(row: Instruction, target: Target) -> list[str]:
    """The suffixes of as many instructions of this row as one packet may have."""
    suffixes, chosen = dict(row.suffixes), []
    for unit in row.units[:1] if row.resources else row.units:
        if all(len({unit, *chosen} & limit.units) <= limit.most for limit in target.packets.limits):
            chosen.append(unit)
    return [suffixes.get(unit, "") for unit in chosen[: target.packets.issue]]


@pytest.mark.parametrize(("isa", "row"), ROWS)
def test_rows_issue_whenever_their_units_are_free(isa: str, row: str) -> None:
    bench = bench_of(isa, row)
    suffixes = at_once(bench.row, bench.target)
    results = {o.name: registers(bench, o.classes[0]) for o in bench.row.operands if o.write and o.kind == "register"}
    suffixes = suffixes[: min((len(names) for names in results.values()), default=len(suffixes))]
    period = max(bench.row.busy, *(cycles for _, _, cycles in bench.row.resources), 1)
    memory = next((o.name for o in bench.row.operands if o.kind == "memory"), None)
    packets: list[list[str]] = []
    for group in range(GROUPS):
        packets.append([])
        for k, suffix in enumerate(suffixes):
            number = group * len(suffixes) + k
            texts = {name: names[number % len(names)] for name, names in results.items()}
            if memory is not None:
                texts[memory] = f"*+{{base}}[{number}]"
            packets[-1].append(bench.line(suffix=suffix, **texts))
    dense = {period * group: lines for group, lines in enumerate(packets)}
    apart = {cycle * (SETTLED + 1): [line] for cycle, line in enumerate(line for lines in packets for line in lines)}
    assert same(state(bench, dense), state(bench, apart)), packets
